//! What this process is: its part of the service, its workers, and how far its stop is.

use crate::{
    boot::role::Role,
    domain::network::Network,
    http::{dev::Room, edge::server::Shutdown},
    worker::{Workers, pace::News},
};
use std::collections::HashMap;

/// What a process does, and how far its stop is.
#[derive(Clone)]
pub struct Process {
    /// Its part of the service.
    pub role: Role,
    /// The workers that run in it.
    pub workers: Workers,
    /// How it is told to stop.
    pub shutdown: Shutdown,
    /// What a developer does to it; `None` but for `prs dev`.
    pub room: Option<Room>,
    /// What tells of new blocks, where something does: the local chain of `prs dev`.
    pub news: HashMap<Network, News>,
}

impl Process {
    /// One without workers.
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
