//! What all faults of a run are played with, and how long.

use std::path::PathBuf;
use std::time::Duration;

/// A delivery that a killed process had claimed is sent again when its lease of 15 seconds ends; what is repeated or
/// doubled shows only after that.
pub(crate) const QUIET_TIME: Duration = Duration::from_secs(18);

/// What all faults of a run are played with, and how long.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// The service, built with its points.
    pub(crate) prs: PathBuf,
    /// Where logs stay.
    pub(crate) evidence: PathBuf,
    /// Where all random numbers come from.
    pub(crate) seed: u64,
    /// Few rounds of everything.
    pub(crate) is_short: bool,
    /// Kills at random moments.
    pub(crate) kills: u64,
    /// Deaths at each point.
    pub(crate) rounds_per_point: u64,
    /// Kills of one of two workers.
    pub(crate) worker_kills: u64,
    /// Kills of the leader of two workers.
    pub(crate) leader_kills: u64,
    /// The same with leaders that are stopped and go on later.
    pub(crate) leader_stops: u64,
    /// Deaths of the service while recurring payments and requests are due, when it is alone.
    pub(crate) recurring_kills: u64,
    /// The same of one of two instances.
    pub(crate) recurring_twin_kills: u64,
    /// Payments of each schedule.
    pub(crate) recurring_payments: u32,
    /// Rounds in which each of two instances is replaced.
    pub(crate) rolling_restarts: u64,
    /// Replays by two workers without a kill.
    pub(crate) quiet_replays: u64,
    /// Kills of PostgreSQL.
    pub(crate) database_kills: u64,
    /// Connections cut at a commit.
    pub(crate) cuts: u64,
    /// Rounds in which answers of PostgreSQL to three statements come late.
    pub(crate) late_rounds: u64,
    /// Rounds of four jumps of the clock.
    pub(crate) clock_rounds: u64,
    /// Events for bad receivers.
    pub(crate) bad_events: usize,
    /// Events for each round with and without a receiver that hangs.
    pub(crate) isolated_events: usize,
    /// Events that nobody receives.
    pub(crate) missed_events: usize,
}

impl Plan {
    /// The amounts of a short or of a full run.
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
