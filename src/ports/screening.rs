//! Wallet screening providers.

use crate::domain::{
    address::Address,
    destination::ScreeningProvider,
    network::Network,
    screening::{SandboxAnswer, ScreeningStatus},
};
use async_trait::async_trait;

/// A provider returned no valid response.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{provider} {what}")]
pub struct ScreeningError {
    /// The provider.
    pub provider: &'static str,
    /// What happened. The text contains no wallet and no key.
    pub what: String,
    /// Whether the provider returned a complete response, but no result for this wallet. The provider works, so no
    /// other provider is queried instead.
    pub is_answered: bool,
}

/// Result of a screening.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScreeningFinding {
    /// Whether the wallet may pay.
    pub status: ScreeningStatus,
    /// The provider's word for the result, at most 64 characters.
    pub raw_status: String,
}

/// A wallet screening provider.
#[async_trait]
pub trait Screener: Send + Sync + 'static {
    /// Name of the provider.
    fn provider(&self) -> ScreeningProvider;
    /// Screens a wallet on a network, once, for at most [`crate::domain::waits::Waits::screening`]. Each call may cost
    /// money.
    async fn screen(&self, wallet: &Address, network: Network) -> Result<ScreeningFinding, ScreeningError>;
}

/// Controls of the screening sandbox.
pub trait ScreeningControls: Send + Sync + 'static {
    /// Sets the result for a wallet, for one provider or for all.
    fn answer(&self, wallet: &Address, provider: Option<ScreeningProvider>, answer: SandboxAnswer);
}
