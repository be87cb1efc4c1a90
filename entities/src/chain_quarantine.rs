//! What is odd about payments and blocks: set aside, seen by the operator.

use sea_orm::entity::prelude::*;

/// A row.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "chain_quarantine")]
pub struct Model {
    /// ULID.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: String,
    /// Network.
    pub network: String,
    /// Height of the block.
    pub block_number: i64,
    /// Transaction, 64 hexadecimal digits; none when the whole block is odd.
    pub tx_hash: Option<String>,
    /// Position of the event among all events of the transaction, where it is known.
    pub position: Option<i32>,
    /// Transaction and position as one text, so that the same thing has one row.
    pub place: String,
    /// Why.
    pub reason: String,
    /// What was seen, and which nodes said so.
    pub detail: String,
    /// Tenant of the request that it concerns.
    pub platform_id: Option<String>,
    /// Row of that request.
    pub request_row: Option<String>,
    /// What became of it.
    pub state: String,
    /// How often it was seen.
    pub attempts: i32,
    /// When it was seen first.
    pub first_seen: DateTimeUtc,
    /// When it was seen last.
    pub last_seen: DateTimeUtc,
    /// When it was over.
    pub settled_at: Option<DateTimeUtc>,
    /// What the operator noted.
    pub note: Option<String>,
    /// Units of the payment currency that moved, where a payment is proven.
    pub units: Option<String>,
    /// How much of its request they would settle.
    pub settlement_units: Option<String>,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
