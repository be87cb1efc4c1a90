//! Orders that pay out the payments of requests to bank accounts, one for each request.

use sea_orm::entity::prelude::*;

/// A row.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "off_ramp_orders")]
pub struct Model {
    /// ULID, `offrampId` in events.
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
    /// Token units that the service ordered the partner to pay out; none before the order was sent.
    pub asked_units: Option<String>,
    /// Transactions that brought the token units of `asked_units`, as a JSON list.
    pub asked_transactions: Option<String>,
    /// Number of payments that brought the token units of `asked_units`.
    pub asked_payments: Option<i32>,
    /// The partner's id of the order, once it is known.
    pub partner_order: Option<String>,
    /// State.
    pub state: String,
    /// Version of the partner's latest report; 0 before the first one.
    pub version: i64,
    /// The partner's own status of the order, or the reason why the order cannot be opened.
    pub word: Option<String>,
    /// Consecutive queries without a result.
    pub failures: i32,
    /// When the service queries the partner next; none when no query is due.
    pub next_at: Option<DateTimeUtc>,
    /// Last change.
    pub changed_at: DateTimeUtc,
    /// When the payments of the request reached its expected total.
    pub created_at: DateTimeUtc,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
