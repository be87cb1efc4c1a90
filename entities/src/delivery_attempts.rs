//! Tries of deliveries, but for the one that arrived first: its delivery holds it.

use sea_orm::entity::prelude::*;

/// A row.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "delivery_attempts")]
pub struct Model {
    /// Platform or orchestrator.
    #[sea_orm(primary_key, auto_increment = false)]
    pub owner_id: String,
    /// Delivery.
    #[sea_orm(primary_key, auto_increment = false)]
    pub delivery_id: String,
    /// ULID.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: String,
    /// Number of the try, from 1.
    pub number: i32,
    /// When it began.
    pub started_at: DateTimeUtc,
    /// When it ended.
    pub ended_at: DateTimeUtc,
    /// Status that the receiver answered with.
    pub status: Option<i32>,
    /// Why there was no usable answer.
    pub error: Option<String>,
    /// First bytes of the answer.
    pub response: Option<String>,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
