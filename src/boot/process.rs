//! State of this process: its role, its workers, and its shutdown.

use crate::{
    boot::role::Role,
    domain::network::Network,
    http::{dev::DevRoom, edge::server::Shutdown},
    worker::{Workers, pace::BlockNotices},
};
use std::collections::HashMap;

/// State of a process.
#[derive(Clone)]
pub struct Process {
    /// Its role.
    pub role: Role,
    /// Its workers.
    pub workers: Workers,
    /// Its shutdown signals.
    pub shutdown: Shutdown,
    /// Developer operations; only for `prs dev`.
    pub room: Option<DevRoom>,
    /// Notification of new blocks. Only the local chain of `prs dev` sends it.
    pub news: HashMap<Network, BlockNotices>,
}

impl Process {
    /// A process without workers.
    pub fn new(role: Role) -> Self {
        Self {
            role,
            workers: Workers::default(),
            shutdown: Shutdown::default(),
            room: None,
            news: HashMap::new(),
        }
    }
}
