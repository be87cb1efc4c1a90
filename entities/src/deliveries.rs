//! Deliveries of events to endpoints. They outlive their endpoint, so that the log stays complete.

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
    /// Endpoint, which may have been deleted.
    pub endpoint_id: String,
    /// State. No index contains this column, so that a success changes no index entry.
    pub state: String,
    /// Number of retries that were scheduled until the delivery finished. For a pending delivery, see `delivery_queue`.
    pub retry_count: i32,
    /// Whether it is a test delivery.
    pub is_test: bool,
    /// Whether the delivery was queued later than its event: for a replay that the owner requested, or for a recovery
    /// round.
    pub is_replay: bool,
    /// Time of creation.
    pub created_at: DateTimeUtc,
    /// When the delivery left the queue.
    pub finished_at: Option<DateTimeUtc>,
    /// Number of recovery rounds that began after the first four attempts of the delivery.
    pub recovery_rounds: i32,
    /// Earliest time of the next recovery round. Until `recover_at`, the round begins only if the endpoint responds
    /// again.
    pub recover_from: Option<DateTimeUtc>,
    /// Latest time of the next recovery round. During a round, the time at which this round was due. None when no round
    /// is left.
    pub recover_at: Option<DateTimeUtc>,
    /// Copy of `state` for an index: set while the delivery is failed or cancelled, otherwise none.
    pub missed: Option<String>,
    /// Number of the successful attempt, if it was in the first round; otherwise none. The `success` columns contain
    /// this attempt, which has no row in `delivery_attempts`.
    pub success_number: Option<i32>,
    /// When the attempt with `success_number` began.
    pub success_started_at: Option<DateTimeUtc>,
    /// When the attempt with `success_number` ended.
    pub success_ended_at: Option<DateTimeUtc>,
    /// HTTP status of the response to the attempt with `success_number`.
    pub success_status: Option<i32>,
    /// First bytes of the response to the attempt with `success_number`.
    pub success_response: Option<String>,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
