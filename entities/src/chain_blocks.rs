//! Window of recent blocks of each chain, which shows where a reorganisation began.

use sea_orm::entity::prelude::*;

/// A row.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "chain_blocks")]
pub struct Model {
    /// Network.
    #[sea_orm(primary_key, auto_increment = false)]
    pub network: String,
    /// Height.
    #[sea_orm(primary_key, auto_increment = false)]
    pub number: i64,
    /// Hash, 64 hexadecimal digits.
    pub hash: String,
    /// Hash of the parent, 64 hexadecimal digits.
    pub parent_hash: String,
    /// Unix time.
    pub time_s: i64,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
