//! Parameters of all faults of a run, and their durations.

use std::path::PathBuf;
use std::time::Duration;

/// How long a run waits at its end for deliveries that are sent again. If a process was killed after it had claimed a
/// delivery, the delivery is sent again when the lease of 15 seconds expires.
pub(crate) const QUIET_TIME: Duration = Duration::from_secs(18);

/// Parameters of all faults of a run.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// The binary of the service, built with the crash points.
    pub(crate) prs: PathBuf,
    /// Folder for logs.
    pub(crate) evidence: PathBuf,
    /// Seed of all random numbers.
    pub(crate) seed: u64,
    /// Whether the run is short: a few rounds of each fault.
    pub(crate) is_short: bool,
    /// Number of kills at random moments.
    pub(crate) kills: u64,
    /// Number of deaths at each crash point.
    pub(crate) rounds_per_point: u64,
    /// Number of kills of one of two workers.
    pub(crate) worker_kills: u64,
    /// Number of kills of the leader of two workers.
    pub(crate) leader_kills: u64,
    /// Number of times that a leader is paused and later continues.
    pub(crate) leader_stops: u64,
    /// Number of deaths of a single service while recurring payments and requests are due.
    pub(crate) recurring_kills: u64,
    /// Number of deaths of one of two instances while recurring payments and requests are due.
    pub(crate) recurring_twin_kills: u64,
    /// Number of payments of each schedule.
    pub(crate) recurring_payments: u32,
    /// Number of rounds in which each of two instances is replaced.
    pub(crate) rolling_restarts: u64,
    /// Number of replays with two workers of which none is killed.
    pub(crate) quiet_replays: u64,
    /// Kills of PostgreSQL.
    pub(crate) database_kills: u64,
    /// Number of connections that are cut at a commit.
    pub(crate) cuts: u64,
    /// Number of rounds. In each round, the responses to three kinds of statements are late, one kind after another.
    pub(crate) late_rounds: u64,
    /// Number of rounds; each has four jumps of the clock.
    pub(crate) clock_rounds: u64,
    /// Number of events that are sent to bad receivers.
    pub(crate) bad_events: usize,
    /// Number of events in each round of the test with a hanging receiver. Rounds with and without this receiver
    /// alternate.
    pub(crate) isolated_events: usize,
    /// Number of events while the receiver is unreachable.
    pub(crate) missed_events: usize,
}

impl Plan {
    /// The parameters of a short or of a full run.
    pub(crate) fn new(is_short: bool, kills: Option<u64>, prs: PathBuf, evidence: PathBuf, seed: u64) -> Self {
        let either = |short, full| if is_short { short } else { full };
        let events = |short, full| if is_short { short } else { full };
        Self {
            prs,
            evidence,
            seed,
            is_short,
            kills: kills.unwrap_or(either(4, 40)),
            rounds_per_point: either(1, 4),
            worker_kills: either(1, 4),
            leader_kills: either(3, 20),
            leader_stops: either(1, 5),
            recurring_kills: either(10, 50),
            recurring_twin_kills: either(4, 20),
            recurring_payments: if is_short { 4 } else { 12 },
            rolling_restarts: either(1, 5),
            quiet_replays: either(1, 6),
            database_kills: either(2, 10),
            cuts: either(30, 500),
            late_rounds: either(1, 5),
            clock_rounds: either(1, 5),
            bad_events: events(3, 20),
            isolated_events: events(10, 30),
            missed_events: events(10, 200),
        }
    }
}
