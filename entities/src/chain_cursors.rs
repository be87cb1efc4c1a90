//! How far each chain has been read.

use sea_orm::entity::prelude::*;

/// A row.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "chain_cursors")]
pub struct Model {
    /// Network.
    #[sea_orm(primary_key, auto_increment = false)]
    pub network: String,
    /// Newest block that was read.
    pub seen_number: i64,
    /// Hash of the newest block that was read, 64 hexadecimal digits.
    pub seen_hash: String,
    /// Newest block that was settled.
    pub final_number: i64,
    /// Hash of the newest block that was settled, 64 hexadecimal digits.
    pub final_hash: String,
    /// Why the chain is halted; none while the service reads it.
    pub halted_reason: Option<String>,
    /// Rule by which blocks count as final: the finality tag of the nodes, the depth of the network, or the depth in
    /// the settings.
    pub finality: Option<String>,
    /// Whether the operator allows the service to return to a block before `final_number`.
    pub may_rewind: bool,
    /// Last change.
    pub updated_at: DateTimeUtc,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
