//! The machine that a command runs on: programs, packages and the repository.

pub mod command;
pub mod failure;
pub mod packages;
pub mod postgres;
pub mod workspace;
