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
    /// Its hash, 64 hexadecimal digits.
    pub seen_hash: String,
    /// Newest block that was settled.
    pub final_number: i64,
    /// Its hash, 64 hexadecimal digits.
    pub final_hash: String,
    /// Why the chain is halted, when it is.
    pub halted_reason: Option<String>,
    /// How blocks count as final.
    pub finality: Option<String>,
    /// Whether the operator lets it go back below what was final.
    pub may_rewind: bool,
    /// Last change.
    pub updated_at: DateTimeUtc,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
