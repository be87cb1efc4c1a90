//! The part of the service that a process runs.

use clap::ValueEnum;

/// What a process does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Role {
    /// API and workers.
    All,
    /// Only the API.
    Api,
    /// Only the workers, with health and metrics.
    Worker,
}
