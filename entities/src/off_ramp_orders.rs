//! Orders by which payments reach bank accounts, one for each request.

use sea_orm::entity::prelude::*;

/// A row.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "off_ramp_orders")]
pub struct Model {
    /// ULID, which events tell as `offrampId`.
    pub id: String,
    /// Tenant of the request.
    #[sea_orm(primary_key, auto_increment = false)]
    pub platform_id: String,
    /// Row of the request.
    #[sea_orm(primary_key, auto_increment = false)]
    pub request_row: String,
    /// The quote under which the last payment arrived.
    pub quote_id: String,
    /// Row of the payer.
    pub payer_id: String,
    /// Row of the bank account.
    pub account_id: String,
    /// Token units that the partner was asked to pay out, once it was.
    pub asked_units: Option<String>,
    /// The transactions that brought them, as a JSON list.
    pub asked_transactions: Option<String>,
    /// How many payments those are.
    pub asked_payments: Option<i32>,
    /// The partner's id of the order, once it is known.
    pub partner_order: Option<String>,
    /// How far it is.
    pub state: String,
    /// Number of the newest news of the partner; 0 before any.
    pub version: i64,
    /// The partner's own word for the state, or what keeps it from being opened.
    pub word: Option<String>,
    /// Questions in a row that brought nothing.
    pub failures: i32,
    /// When the partner is asked next; none when there is nothing to ask.
    pub next_at: Option<DateTimeUtc>,
    /// When something of it changed.
    pub changed_at: DateTimeUtc,
    /// When the money was complete.
    pub created_at: DateTimeUtc,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
