//! The running service as its clients see it.

pub mod chain;
pub mod client;
pub mod delivery;
pub mod dev;
pub mod hooks;
pub mod permit;
pub mod ready;
pub mod tron;
