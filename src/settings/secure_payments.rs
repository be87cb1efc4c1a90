//! Payment links.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Secure payments. The URL of their page is `http.pay_url`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SecurePaymentSettings {
    /// Seconds for which a secure payment without its own expiry can be paid.
    #[schemars(range(min = 300, max = 7_776_000))]
    pub expires_in_s: u32,
    /// Days for which an unpaid secure payment is stored after it ends. Then it is deleted with its items, names of
    /// people and visitor records; its requests are kept, so that late payments are credited.
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
