//! Links that whoever has their token pays.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Secure payments. The address of their page is `http.pay_url`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SecurePaymentSettings {
    /// Seconds for which a secure payment can be paid that names no time of its own.
    #[schemars(range(min = 300, max = 7_776_000))]
    pub expires_in_s: u32,
    /// Days after its end for which a secure payment is kept that nobody paid. Then it goes with its items, its names of
    /// people and what was noted of its visitors; its requests stay, so that late payments are credited.
    #[schemars(range(min = 1, max = 36_500))]
    pub kept_days: u32,
}

impl Default for SecurePaymentSettings {
    fn default() -> Self {
        Self {
            expires_in_s: 604_800,
            kept_days: 90,
        }
    }
}
