//! Deliveries of events to endpoints. They outlive their endpoint, so that the log stays whole.

use sea_orm::entity::prelude::*;

/// A row.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "deliveries")]
pub struct Model {
    /// ULID.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: String,
    /// Event.
    pub event_id: String,
    /// Endpoint, which may be gone.
    pub endpoint_id: String,
    /// Platform or orchestrator.
    pub owner_id: String,
    /// State.
    pub state: String,
    /// Number of retries that were scheduled.
    pub retry_count: i32,
    /// Not before this time.
    pub next_at: DateTimeUtc,
    /// Until when it belongs to a worker.
    pub lease_until: Option<DateTimeUtc>,
    /// Which claim it belongs to.
    pub lease_token: Option<String>,
    /// Whether it is a test delivery.
    pub is_test: bool,
    /// Whether it was queued again by its owner.
    pub is_replay: bool,
    /// Time of creation.
    pub created_at: DateTimeUtc,
    /// When it left the queue.
    pub finished_at: Option<DateTimeUtc>,
    /// Recovery rounds that were begun since its four tries.
    pub recovery_rounds: i32,
    /// From when on the next round may come, once the endpoint answers.
    pub recover_from: Option<DateTimeUtc>,
    /// When the next round comes, or the current one was due; none when there are no more.
    pub recover_at: Option<DateTimeUtc>,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
