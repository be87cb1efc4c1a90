//! Unexpected payments and blocks, quarantined for the operator.

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
    /// Hash of the transaction, 64 hexadecimal digits; none for a quarantined block.
    pub tx_hash: Option<String>,
    /// Position of the event among all events of the transaction; none while the position is unknown.
    pub position: Option<i32>,
    /// Transaction and position as one text, so that each quarantined payment or block has one row.
    pub place: String,
    /// Why.
    pub reason: String,
    /// The observed values, and the nodes that reported these values.
    pub detail: String,
    /// Tenant of the request concerned.
    pub platform_id: Option<String>,
    /// Row of the request concerned.
    pub request_row: Option<String>,
    /// State.
    pub state: String,
    /// How often the payment or block was seen.
    pub attempts: i32,
    /// When it was seen first.
    pub first_seen: DateTimeUtc,
    /// When it was seen last.
    pub last_seen: DateTimeUtc,
    /// When it was settled.
    pub settled_at: Option<DateTimeUtc>,
    /// Note of the operator.
    pub note: Option<String>,
    /// Units of the payment currency that the payment transferred; none unless the payment is proven.
    pub units: Option<String>,
    /// Settlement units that the payment would credit to its request.
    pub settlement_units: Option<String>,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
