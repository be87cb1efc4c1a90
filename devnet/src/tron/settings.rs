//! What a control call can change of accounts and tokens.

use serde::Serialize;

/// Changes of an account. `None` leaves a setting as it is.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TronAccountChange {
    /// The address, in Base58 or in hexadecimal with 41 at its start.
    pub address: String,
    /// False removes the account, so that it is not activated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activated: Option<bool>,
    /// TRX in sun.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub balance: Option<u64>,
    /// Energy a day from stake.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub energy_limit: Option<u64>,
    /// Used part of the energy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub energy_used: Option<u64>,
    /// Bandwidth a day from stake, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub net_limit: Option<u64>,
    /// Used part of the bandwidth from stake.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub net_used: Option<u64>,
    /// Used part of the 600 free bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free_net_used: Option<u64>,
    /// TRX in sun that is staked for energy. It is only shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frozen_for_energy: Option<u64>,
    /// TRX in sun that is staked for bandwidth. It is only shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frozen_for_bandwidth: Option<u64>,
}

/// New tokens for an address.
#[derive(Clone, Debug, Serialize)]
pub struct TronMint {
    /// The address.
    pub to: String,
    /// The amount in base units, as a decimal number.
    pub amount: String,
}

/// Changes of a token. `None` and empty lists leave a setting as it is. The changes take one block.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TronTokenChange {
    /// `USDT` or `USDC`.
    pub symbol: String,
    /// Share of each transfer that the token's owner gets; zero switches the fee off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fee_basis_points: Option<u32>,
    /// Upper bound of the fee in base units, as a decimal number. It changes only together with `fee_basis_points`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub maximum_fee: Option<String>,
    /// Whether a non-zero allowance must be set to zero before it changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval_needs_reset: Option<bool>,
    /// Addresses that come onto the blacklist.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub block: Vec<String>,
    /// Addresses that leave the blacklist.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unblock: Vec<String>,
    /// New tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mint: Option<TronMint>,
}
