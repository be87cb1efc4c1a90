//! From which chains and in which tokens a wallet could pay.

use crate::domain::network::Network;
use alloy::primitives::U256;

/// What a wallet holds of one token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PaymentOption {
    /// Network.
    pub network: Network,
    /// Symbol.
    pub token: String,
    /// Fraction digits of its units.
    pub decimals: u8,
    /// Units that the wallet holds.
    pub balance: U256,
    /// Units that it needs.
    pub needed: U256,
}

impl PaymentOption {
    /// Units that are not there.
    pub fn missing(&self) -> U256 {
        self.needed.saturating_sub(self.balance)
    }
}
