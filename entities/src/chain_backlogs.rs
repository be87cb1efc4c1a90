//! Ranges of final blocks that are read in parallel with new blocks.

use sea_orm::entity::prelude::*;

/// A row.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "chain_backlogs")]
pub struct Model {
    /// Network.
    #[sea_orm(primary_key, auto_increment = false)]
    pub network: String,
    /// Next block to read.
    pub next_block: i64,
    /// Last block.
    #[sea_orm(primary_key, auto_increment = false)]
    pub end_block: i64,
    /// Why the range is read.
    #[sea_orm(primary_key, auto_increment = false)]
    pub reason: String,
    /// Consecutive failures.
    pub failures: i32,
    /// Earliest time of the next attempt.
    pub due_at: DateTimeUtc,
    /// When the range was added.
    pub created_at: DateTimeUtc,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
