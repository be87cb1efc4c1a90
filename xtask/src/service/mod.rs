//! The running service, seen from outside.

pub mod client;
pub mod delivery;
