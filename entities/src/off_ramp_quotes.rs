//! Quotes of the off-ramp partner that were handed out: where the money of a request may arrive, and what it is worth there.

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
    /// Token units that were asked for.
    pub units: String,
    /// How much of the request they settle.
    pub settlement_units: String,
    /// By which rate, a decimal text; none of a request in the token itself.
    pub rate: Option<String>,
    /// Who told that rate.
    pub rate_provider: Option<String>,
    /// What the partner keeps, in token units.
    pub fee_units: String,
    /// What reaches the bank account, a decimal text.
    pub pays_out: String,
    /// Currency of the bank account.
    pub currency: String,
    /// When it ends.
    pub ends_at: DateTimeUtc,
    /// When it was handed out.
    pub created_at: DateTimeUtc,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
