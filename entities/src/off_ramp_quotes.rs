//! Quotes of the off-ramp partner: the deposit address for the money of a request, and the amount that the partner pays
//! out.

use sea_orm::entity::prelude::*;

/// A row.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "off_ramp_quotes")]
pub struct Model {
    /// ULID.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: String,
    /// Tenant of the request.
    pub platform_id: String,
    /// Row of the request.
    pub request_row: String,
    /// Row of the payer.
    pub payer_id: String,
    /// Row of the bank account.
    pub account_id: String,
    /// The partner's id of the payer; empty once the payer is erased.
    pub partner_payer: String,
    /// The partner's id of the bank account; empty once the payer is erased.
    pub partner_account: String,
    /// The partner's id of the quote.
    pub partner_quote: String,
    /// Network of the token.
    pub network: String,
    /// Canonical address.
    pub deposit_address: String,
    /// Token units that were quoted.
    pub units: String,
    /// Settlement units that the quoted token units credit to the request.
    pub settlement_units: String,
    /// Exchange rate, a decimal text; none if the request's amount is in the token itself.
    pub rate: Option<String>,
    /// Source of the rate in `rate`.
    pub rate_provider: Option<String>,
    /// Fee of the partner in token units.
    pub fee_units: String,
    /// Amount that reaches the bank account, a decimal text.
    pub pays_out: String,
    /// Currency of the bank account.
    pub currency: String,
    /// When it expires.
    pub ends_at: DateTimeUtc,
    /// When it was issued.
    pub created_at: DateTimeUtc,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
