//! Deduplication keys of events, unique over all partitions of events.

use sea_orm::entity::prelude::*;

/// A row.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "event_keys")]
pub struct Model {
    /// Platform or orchestrator.
    #[sea_orm(primary_key, auto_increment = false)]
    pub owner_id: String,
    /// Deduplication key: events about the same fact have the same key.
    #[sea_orm(primary_key, auto_increment = false)]
    pub deduplication_key: String,
    /// The event that reports the fact with this key.
    pub event_id: String,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
