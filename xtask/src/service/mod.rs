//! The running service, seen from outside.

pub mod delivery;
