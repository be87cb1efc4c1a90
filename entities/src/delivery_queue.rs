//! Deliveries that wait for an attempt. A row exists as long as its delivery is queued. It contains the time at which
//! the delivery is due, and the lease of the worker that has claimed it.

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
    /// Endpoint, which may have been deleted.
    pub endpoint_id: String,
    /// Platform or orchestrator.
    pub owner_id: String,
    /// Whether it is a test delivery.
    pub is_test: bool,
    /// Whether the delivery was queued later than its event: for a replay that the owner requested, or for a recovery
    /// round.
    pub is_replay: bool,
    /// Number of retries that were scheduled.
    pub retry_count: i32,
    /// Earliest time of the next attempt.
    pub next_at: DateTimeUtc,
    /// End of the lease of the worker that has claimed the delivery.
    pub lease_until: Option<DateTimeUtc>,
    /// Token of the claim; only the worker with this token may record the attempt.
    pub lease_token: Option<String>,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
