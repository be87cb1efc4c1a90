//! Payers and their bank accounts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Payers, if `partners.offramp` is not `off`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PayerSettings {
    /// Whether responses show only the last four characters of account numbers and IBANs. Default: yes in production,
    /// no in development.
    pub mask_bank_details: Option<bool>,
}
