//! Limits of payouts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Payouts.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PayoutSettings {
    /// Maximum gas that the transaction of a batch may need. The service estimates the gas above measured values. If a
    /// batch needs more, the call returns 400 and says how many payments fit. Ethereum and most other networks accept
    /// no transaction above the default, 2²⁴.
    #[schemars(range(min = 500_000, max = 1_000_000_000))]
    pub batch_gas: u64,
}

impl Default for PayoutSettings {
    fn default() -> Self {
        Self { batch_gas: 16_777_216 }
    }
}
