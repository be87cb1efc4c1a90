//! Chains and tokens with which a wallet could pay.

use crate::domain::network::Network;
use alloy::primitives::U256;

/// Balance of a wallet in one token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PaymentOption {
    /// Network.
    pub network: Network,
    /// Symbol.
    pub token: String,
    /// Decimal places of its units.
    pub decimals: u8,
    /// Units that the wallet holds.
    pub balance: U256,
    /// Units that it needs.
    pub needed: U256,
}

impl PaymentOption {
    /// Units that the wallet lacks.
    pub fn missing(&self) -> U256 {
        self.needed.saturating_sub(self.balance)
    }
}
