//! Facts that were told, by the keys that make them unique over all partitions of events.

use sea_orm::entity::prelude::*;

/// A row.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "event_keys")]
pub struct Model {
    /// Platform or orchestrator.
    #[sea_orm(primary_key, auto_increment = false)]
    pub owner_id: String,
    /// The same fact has the same key.
    #[sea_orm(primary_key, auto_increment = false)]
    pub deduplication_key: String,
    /// The event that tells it.
    pub event_id: String,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
