//! Deliveries of events to endpoints. They outlive their endpoint, so that the log stays whole.

use sea_orm::entity::prelude::*;

/// A row.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "deliveries")]
pub struct Model {
    /// Platform or orchestrator.
    #[sea_orm(primary_key, auto_increment = false)]
    pub owner_id: String,
    /// ULID.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: String,
    /// Event.
    pub event_id: String,
    /// Endpoint, which may be gone.
    pub endpoint_id: String,
    /// State. No index holds it, so that a success changes nothing that an index holds.
    pub state: String,
    /// Number of retries that were scheduled until it was finished; the queue counts those of one that waits.
    pub retry_count: i32,
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
    /// The state again, of one that failed or was cancelled; none of any other.
    pub missed: Option<String>,
    /// Number of the try that arrived, unless it was queued again before. Tries that have no row of their own are these.
    pub success_number: Option<i32>,
    /// When that try began.
    pub success_started_at: Option<DateTimeUtc>,
    /// When that try ended.
    pub success_ended_at: Option<DateTimeUtc>,
    /// Status that the receiver answered it with.
    pub success_status: Option<i32>,
    /// First bytes of that answer.
    pub success_response: Option<String>,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
