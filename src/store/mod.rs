//! Floor 1: SQL. Free functions that take a transaction or connection; every finder takes the owner first.

/// How a statement ends when it does not end well.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A named constraint holds: somebody else was first.
    #[error("conflict with {0}")]
    Conflict(&'static str),
    /// The database does not answer in time.
    #[error("database unavailable: {0}")]
    Unavailable(anyhow::Error),
    /// A row or statement is not what this program expects.
    #[error("broken: {0}")]
    Broken(anyhow::Error),
}
