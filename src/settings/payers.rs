//! Payers and their bank accounts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Payers, where `partners.offramp` names who proves and pays them.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PayerSettings {
    /// Whether answers show account numbers and IBANs by their last four characters alone; unset means yes in production
    /// and no in development.
    pub mask_bank_details: Option<bool>,
}
