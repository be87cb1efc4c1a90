//! What is known of the chains that this process follows, for the health page and the gauges.

use crate::{
    domain::network::Network,
    flows::{FlowError, payments::watch::Position},
};
use chrono::{DateTime, Utc};
use std::{
    collections::BTreeMap,
    sync::{Arc, RwLock},
    time::Duration,
};

/// How the last look at a chain ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Look {
    /// There was none yet.
    None,
    /// Another instance follows the chain, and this one stands by.
    Standby,
    /// The chain was followed.
    Followed(Position),
    /// The chain is stopped until the operator has looked at it.
    Halted(String),
    /// It failed.
    Failed(Failing),
}

/// What a look failed at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failing {
    /// The nodes gave no good answer.
    Nodes,
    /// The database did not answer, or its disk is full.
    Database,
    /// Something that the log shows.
    Other,
}

impl Failing {
    /// What an error of a look is about.
    pub(super) fn of(error: &FlowError) -> Self {
        match error {
            FlowError::Refused(_) | FlowError::NotYet(_) => Self::Nodes,
            FlowError::Unavailable(_) | FlowError::Full(_) => Self::Database,
            FlowError::Faulted(_) => Self::Other,
        }
    }
}

impl Look {
    /// Whether a good answer was had, or none was needed: of nodes that stand still, or know less than is settled, it is
    /// none.
    fn is_good(&self) -> bool {
        match self {
            Self::Followed(at) => at.is_current,
            Self::None | Self::Standby | Self::Halted(_) => true,
            Self::Failed(_) => false,
        }
    }
}

/// What is known of a chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainState {
    /// How the last look ended.
    pub look: Look,
    /// The term for which this process leads; `None` while it stands by.
    pub term: Option<u64>,
    /// When a look last ended with a good answer.
    pub last_ok: Option<DateTime<Utc>>,
    /// When the next one was to end well, on the clock that never jumps.
    due: Duration,
}

impl ChainState {
    /// How long a good answer is missing at `steady`; time in which the process was not going to ask does not count.
    pub fn missing_for(&self, steady: Duration) -> Duration {
        steady.saturating_sub(self.due)
    }

    /// How old the newest block of the chain was when it was last seen.
    pub fn head_age(&self) -> Duration {
        let (Look::Followed(at), Some(seen_at)) = (&self.look, self.last_ok) else {
            return Duration::ZERO;
        };
        // The clock of this machine may be behind.
        (seen_at - at.head.time).to_std().unwrap_or_default()
    }
}

/// The state of each chain that is followed, from the start of the process on.
#[derive(Clone, Default)]
pub struct ChainStates(Arc<RwLock<BTreeMap<Network, ChainState>>>);

impl ChainStates {
    /// A copy of all states.
    pub fn all(&self) -> BTreeMap<Network, ChainState> {
        self.0.read().map(|states| states.clone()).unwrap_or_default()
    }

    /// Begins to know of a chain.
    pub(super) fn begin(&self, network: Network, steady: Duration) {
        let state = ChainState {
            look: Look::None,
            term: None,
            last_ok: None,
            due: steady,
        };
        if let Ok(mut states) = self.0.write() {
            states.insert(network, state);
        }
    }

    /// This process leads from now on.
    pub(super) fn lead(&self, network: Network, term: u64, steady: Duration) {
        if let Ok(mut states) = self.0.write()
            && let Some(state) = states.get_mut(&network)
        {
            state.term = Some(term);
            state.look = Look::None;
            state.due = steady;
        }
    }

    /// Another instance leads; the next look at who does is to end well at `due`.
    pub(super) fn stand_by(&self, network: Network, due: Duration) {
        if let Ok(mut states) = self.0.write()
            && let Some(state) = states.get_mut(&network)
        {
            state.term = None;
            state.look = Look::Standby;
            state.due = due;
        }
    }

    /// A look ended at `now`; the next one is to end well at `due`.
    pub(super) fn set(&self, network: Network, look: Look, now: DateTime<Utc>, due: Duration) {
        if let Ok(mut states) = self.0.write()
            && let Some(state) = states.get_mut(&network)
        {
            if look.is_good() {
                state.due = due;
                if matches!(look, Look::Followed(_)) {
                    state.last_ok = Some(now);
                }
            }
            state.look = look;
        }
    }

    /// Nobody awaits anything of a chain that answered well: it is not asked before `due`.
    pub(super) fn leave_alone(&self, network: Network, due: Duration) {
        if let Ok(mut states) = self.0.write()
            && let Some(state) = states.get_mut(&network)
            && state.look.is_good()
        {
            state.due = state.due.max(due);
        }
    }
}
