//! Deliveries that wait for a try. A row is here as long as its delivery is queued, and says when it is due and who has it.

use sea_orm::entity::prelude::*;

/// A row.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "delivery_queue")]
pub struct Model {
    /// Delivery.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: String,
    /// Event.
    pub event_id: String,
    /// Endpoint, which may be gone.
    pub endpoint_id: String,
    /// Platform or orchestrator.
    pub owner_id: String,
    /// Whether it is a test delivery.
    pub is_test: bool,
    /// Whether it was queued again, by its owner or for a recovery.
    pub is_replay: bool,
    /// Number of retries that were scheduled.
    pub retry_count: i32,
    /// Not before this time.
    pub next_at: DateTimeUtc,
    /// Until when it belongs to a worker.
    pub lease_until: Option<DateTimeUtc>,
    /// Which claim it belongs to.
    pub lease_token: Option<String>,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
