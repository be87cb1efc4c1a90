//! The machine that a verb runs on: its programs, its packages, the repository on it.

pub mod command;
pub mod failure;
pub mod packages;
pub mod postgres;
pub mod workspace;
