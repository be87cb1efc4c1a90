//! Providers that know wallets.

use crate::domain::{
    address::Address,
    destination::ScreeningProvider,
    network::Network,
    screening::{SandboxAnswer, ScreeningStatus},
};
use async_trait::async_trait;

/// A provider gave no answer, or one that is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{provider} {what}")]
pub struct ScreeningError {
    /// Who was asked.
    pub provider: &'static str,
    /// What happened. It holds no wallet and no key.
    pub what: String,
    /// Whether the provider answered in full, and what it says of this wallet is no result. It works, so its answer counts:
    /// nobody else is asked instead.
    pub is_answered: bool,
}

/// What a provider says of a wallet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Whether the wallet may pay.
    pub status: ScreeningStatus,
    /// What the provider calls it; at most 64 characters.
    pub raw_status: String,
}

/// Knows wallets.
#[async_trait]
pub trait Screener: Send + Sync + 'static {
    /// Who it is.
    fn provider(&self) -> ScreeningProvider;
    /// Asks about a wallet on a network, once, for at most [`crate::domain::waits::Waits::screening`]. Each call may cost money.
    async fn screen(&self, wallet: &Address, network: Network) -> Result<Finding, ScreeningError>;
}

/// Changes what the sandbox of screening answers.
pub trait ScreeningControls: Send + Sync + 'static {
    /// Answers so about a wallet from now on: of one provider, or of all.
    fn answer(&self, wallet: &Address, provider: Option<ScreeningProvider>, answer: SandboxAnswer);
}
