//! Attempts of deliveries. A successful attempt of the first round has no row here: the row of its delivery contains
//! it.

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
    /// Number of the attempt, from 1.
    pub number: i32,
    /// When it began.
    pub started_at: DateTimeUtc,
    /// When it ended.
    pub ended_at: DateTimeUtc,
    /// Status of the receiver's response.
    pub status: Option<i32>,
    /// Why there was no usable response.
    pub error: Option<String>,
    /// First bytes of the response.
    pub response: Option<String>,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
