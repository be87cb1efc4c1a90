//! The role of a process.

use clap::ValueEnum;

/// The role of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Role {
    /// API and workers.
    All,
    /// Only the API.
    Api,
    /// Only the workers, with health and metrics.
    Worker,
}
