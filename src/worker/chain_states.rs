//! State of the chains that this process follows, for the health page and the gauges.

use crate::{
    domain::network::Network,
    flows::{FlowError, payments::watch::WatchPosition},
};
use chrono::{DateTime, TimeDelta, Utc};
use std::{
    collections::BTreeMap,
    sync::{Arc, RwLock},
    time::Duration,
};

/// Result of the last poll of a chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChainOutcome {
    /// Not polled yet.
    None,
    /// Another instance follows the chain, and this one is on standby.
    Standby,
    /// The chain was followed.
    Followed(WatchPosition),
    /// The chain is halted until the operator resumes it.
    Halted(String),
    /// The poll failed.
    Failed(PollFailure),
}

/// Cause of a failed poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PollFailure {
    /// The nodes returned no valid response.
    Nodes,
    /// The database did not respond, or its disk is full.
    Database,
    /// Another failure, whose cause is in the log.
    Other,
}

impl PollFailure {
    /// The cause of an error.
    pub(super) fn of(error: &FlowError) -> Self {
        match error {
            FlowError::Refused(_) | FlowError::NotYet(_) => Self::Nodes,
            FlowError::Unavailable(_) | FlowError::Full(_) => Self::Database,
            FlowError::Faulted(_) => Self::Other,
        }
    }
}

impl ChainOutcome {
    /// Whether the response was valid, or no response was needed. A response is not valid if the nodes do not advance,
    /// or are behind the settled blocks.
    fn is_good(&self) -> bool {
        match self {
            Self::Followed(at) => at.is_current,
            Self::None | Self::Standby | Self::Halted(_) => true,
            Self::Failed(_) => false,
        }
    }
}

/// The newest final block, and the times of the newest block when this one was first and last seen as final.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SeenFinal {
    number: u64,
    first: DateTime<Utc>,
    last: DateTime<Utc>,
}

/// State of a chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainState {
    /// Result of the last poll.
    pub look: ChainOutcome,
    finality: Option<SeenFinal>,
    /// The term in which this process leads; `None` on standby.
    pub term: Option<u64>,
    /// Time of the last valid response.
    pub last_ok: Option<DateTime<Utc>>,
    /// Time by which the next response is expected, on the monotonic clock.
    due: Duration,
}

impl ChainState {
    /// How long a valid response has been missing at `steady`; planned pauses do not count.
    pub fn missing_for(&self, steady: Duration) -> Duration {
        steady.saturating_sub(self.due)
    }

    /// Age of the newest block when it was last seen.
    pub fn head_age(&self) -> Duration {
        let (ChainOutcome::Followed(at), Some(seen_at)) = (&self.look, self.last_ok) else {
            return Duration::ZERO;
        };
        // The clock of this machine may be behind.
        (seen_at - at.head.time).to_std().unwrap_or_default()
    }

    /// By how much the chain grew, in block time, since its newest final block last changed.
    pub fn final_pause(&self) -> TimeDelta {
        self.finality.map_or(TimeDelta::zero(), |seen| seen.last - seen.first)
    }

    /// Whether blocks of the network have stopped becoming final, although the chain grows.
    pub fn is_without_finality(&self, network: Network) -> bool {
        self.final_pause().num_seconds() > network.finality_pause_max_s()
    }

    fn note_final(&mut self, network: Network, at: &WatchPosition) {
        let was_without = self.is_without_finality(network);
        let (head, finalized, last) = (at.head.number, at.finalized, at.head.time);
        let before = self.finality.filter(|seen| seen.number == finalized);
        self.finality = Some(SeenFinal {
            number: finalized,
            first: before.map_or(last, |seen| seen.first),
            last,
        });
        match (was_without, self.is_without_finality(network)) {
            (false, true) => tracing::warn!(
                %network, head, finalized, chain_grew_s = self.final_pause().num_seconds(),
                "no further block becomes final although the chain grows, so payments wait"
            ),
            (true, false) => tracing::info!(%network, head, finalized, "blocks become final again"),
            _ => {}
        }
    }
}

/// The state of each followed chain since the start of the process.
#[derive(Clone, Default)]
pub struct ChainStates(Arc<RwLock<BTreeMap<Network, ChainState>>>);

impl ChainStates {
    /// A copy of all states.
    pub fn all(&self) -> BTreeMap<Network, ChainState> {
        self.0.read().map(|states| states.clone()).unwrap_or_default()
    }

    /// Adds a chain.
    pub(super) fn begin(&self, network: Network, steady: Duration) {
        let state = ChainState {
            look: ChainOutcome::None,
            finality: None,
            term: None,
            last_ok: None,
            due: steady,
        };
        if let Ok(mut states) = self.0.write() {
            states.insert(network, state);
        }
    }

    /// Records that this process leads.
    pub(super) fn lead(&self, network: Network, term: u64, steady: Duration) {
        if let Ok(mut states) = self.0.write()
            && let Some(state) = states.get_mut(&network)
        {
            state.term = Some(term);
            state.look = ChainOutcome::None;
            state.finality = None;
            state.due = steady;
        }
    }

    /// Records that another instance leads; the next check of the leader is expected by `due`.
    pub(super) fn stand_by(&self, network: Network, due: Duration) {
        if let Ok(mut states) = self.0.write()
            && let Some(state) = states.get_mut(&network)
        {
            state.term = None;
            state.look = ChainOutcome::Standby;
            state.finality = None;
            state.due = due;
        }
    }

    /// Records a poll that ended at `now`; the next one is expected by `due`.
    pub(super) fn set(&self, network: Network, look: ChainOutcome, now: DateTime<Utc>, due: Duration) {
        if let Ok(mut states) = self.0.write()
            && let Some(state) = states.get_mut(&network)
        {
            if look.is_good() {
                state.due = due;
                if matches!(look, ChainOutcome::Followed(_)) {
                    state.last_ok = Some(now);
                }
            }
            if let ChainOutcome::Followed(at) = &look {
                state.note_final(network, at);
            }
            state.look = look;
        }
    }

    /// Records that no payment is expected: the chain is not polled before `due`.
    pub(super) fn leave_alone(&self, network: Network, due: Duration) {
        if let Ok(mut states) = self.0.write()
            && let Some(state) = states.get_mut(&network)
            && state.look.is_good()
        {
            state.due = state.due.max(due);
        }
    }
}
