//! Floor 3: one file for each operation: gather, decide, commit. No HTTP, no SQL text, no vendor words.

use crate::{domain::refusal::Refusal, ports::chain::ChainError, store::StoreError};

/// Only the operator can act on it; its text never reaches a client.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Fault(#[from] pub anyhow::Error);

/// How a flow ends when it does not end well.
#[derive(Debug, thiserror::Error)]
pub enum FlowError {
    /// The caller can act.
    #[error("refused: {0}")]
    Refused(#[from] Refusal),
    /// The database does not answer: try again later.
    #[error("the database does not answer: {0}")]
    Unavailable(anyhow::Error),
    /// Only the operator can act.
    #[error("fault: {0}")]
    Faulted(#[from] Fault),
}

/// Result of a flow.
pub type FlowResult<T> = Result<T, FlowError>;

impl From<StoreError> for FlowError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Unavailable(source) => Self::Unavailable(source),
            other => Self::Faulted(Fault(anyhow::Error::new(other))),
        }
    }
}

impl From<ChainError> for FlowError {
    fn from(error: ChainError) -> Self {
        use crate::domain::refusal::RefusalKind::Upstream;
        let message = match &error {
            ChainError::Unavailable { network, .. } => format!("No node of {network} answers at the moment; try again"),
            ChainError::Malformed { network, .. } | ChainError::Disagreement { network, .. } => {
                format!("The nodes of {network} do not give a usable answer at the moment; try again")
            }
            ChainError::Reverted(_) => {
                "The chain refused to look this up; check the wallet and the currencies".to_owned()
            }
        };
        tracing::warn!(%error, "chain lookup failed");
        Self::Refused(Refusal::new(Upstream, message))
    }
}
