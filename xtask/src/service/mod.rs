//! The running service, seen from outside.

pub mod client;
pub mod delivery;
pub mod permit;
