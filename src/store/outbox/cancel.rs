//! Cancels deliveries of endpoints that are off or deleted.

use crate::{
    domain::{
        ids::{EndpointId, EventId, OwnerId},
        webhook::DeliveryState,
    },
    store::{StoreError, columns, queue::ENDPOINTS, recovery::is_waiting},
};
use chrono::{DateTime, Utc};
use entities::{deliveries, deliveries::Column as Delivery, delivery_queue, delivery_queue::Column};
use sea_orm::{
    ColumnTrait, ConnectionTrait, DbBackend, EntityTrait, QueryFilter, QuerySelect, Statement,
    sea_query::{Expr, LockBehavior, LockType},
};

/// Cancels queued deliveries that match a condition; returns how many.
pub(super) async fn cancel(conn: &impl ConnectionTrait, which: Expr, now: DateTime<Utc>) -> Result<u64, StoreError> {
    let gone = delivery_queue::Entity::delete_many()
        .filter(which)
        .exec_with_returning(conn)
        .await?;
    let gone = gone.into_iter().map(|row| ((row.owner_id, row.retry_count), row.id));
    let mut cancelled = 0;
    let state = DeliveryState::Cancelled.wire();
    for ((owner, retry_count), ids) in columns::by_owner(gone) {
        let result = deliveries::Entity::update_many()
            .col_expr(Delivery::State, Expr::value(state))
            .col_expr(Delivery::Missed, Expr::value(state))
            .col_expr(Delivery::RetryCount, Expr::value(retry_count))
            .col_expr(Delivery::FinishedAt, Expr::value(now))
            .filter(Delivery::OwnerId.eq(owner))
            .filter(Delivery::Id.is_in(ids))
            .exec(conn)
            .await?;
        cancelled += result.rows_affected;
    }
    Ok(cancelled)
}

/// Cancels up to `limit` queued deliveries of an endpoint, and the recovery rounds of as many failed deliveries;
/// returns how many deliveries were cancelled. Locked rows are left for the next call. Needs a transaction.
pub async fn cancel_some_of_endpoint(
    conn: &impl ConnectionTrait,
    owner: &OwnerId,
    endpoint: &EndpointId,
    now: DateTime<Utc>,
    limit: u64,
) -> Result<u64, StoreError> {
    // Skips locked rows, so that it blocks neither a claim nor the recording of attempts.
    let queued: Vec<String> = delivery_queue::Entity::find()
        .select_only()
        .column(Column::Id)
        .filter(Column::OwnerId.eq(owner.as_str()))
        .filter(Column::EndpointId.eq(endpoint.as_str()))
        .limit(limit)
        .lock_with_behavior(LockType::Update, LockBehavior::SkipLocked)
        .into_tuple()
        .all(conn)
        .await?;
    let failed: Vec<String> = deliveries::Entity::find()
        .select_only()
        .column(Delivery::Id)
        .filter(is_waiting())
        .filter(Delivery::OwnerId.eq(owner.as_str()))
        .filter(Delivery::EndpointId.eq(endpoint.as_str()))
        .limit(limit)
        .lock_with_behavior(LockType::Update, LockBehavior::SkipLocked)
        .into_tuple()
        .all(conn)
        .await?;
    let cancelled = if queued.is_empty() {
        0
    } else {
        cancel(conn, Column::Id.is_in(queued), now).await?
    };
    if !failed.is_empty() {
        // Failed deliveries stay failed, but their further recovery rounds are cancelled.
        deliveries::Entity::update_many()
            .col_expr(Delivery::RecoverAt, Expr::value(None::<DateTime<Utc>>))
            .filter(is_waiting())
            .filter(Delivery::OwnerId.eq(owner.as_str()))
            .filter(Delivery::Id.is_in(failed))
            .exec(conn)
            .await?;
    }
    Ok(cancelled)
}

/// Endpoints that are off or deleted and still have waiting deliveries, with their owners.
///
/// The statement finds endpoints one after the other, each by one step in an index of waiting deliveries, so the length
/// of a backlog does not matter.
pub async fn abandoned(conn: &impl ConnectionTrait, limit: u64) -> Result<Vec<(OwnerId, EndpointId)>, StoreError> {
    let backend = conn.get_database_backend();
    let failed = "missed = 'failed' AND NOT is_test AND recover_at IS NOT NULL";
    // SQLite has no statistics about how much of the log waits.
    let index = match backend {
        DbBackend::Sqlite => " INDEXED BY deliveries_recovery_endpoint_idx",
        _ => "",
    };
    let sql = format!(
        "WITH RECURSIVE {ENDPOINTS}, rounds(id) AS (\
           SELECT (SELECT endpoint_id FROM deliveries{index} WHERE {failed} ORDER BY endpoint_id LIMIT 1) \
           UNION ALL \
           SELECT (SELECT endpoint_id FROM deliveries{index} WHERE {failed} AND endpoint_id > rounds.id \
             ORDER BY endpoint_id LIMIT 1) FROM rounds WHERE rounds.id IS NOT NULL) \
         SELECT known.id AS id, known.owner AS owner FROM (\
           SELECT here.endpoint_id AS id, here.owner_id AS owner FROM endpoints \
             JOIN delivery_queue AS here ON here.id = endpoints.id \
           UNION \
           SELECT rounds.id, (SELECT owner_id FROM deliveries WHERE endpoint_id = rounds.id ORDER BY id LIMIT 1) \
             FROM rounds WHERE rounds.id IS NOT NULL) AS known \
         WHERE NOT EXISTS (SELECT 1 FROM webhook_endpoints WHERE webhook_endpoints.id = known.id AND is_active) \
         ORDER BY known.id LIMIT {limit}"
    );
    let mut found = Vec::new();
    for row in conn.query_all_raw(Statement::from_string(backend, sql)).await? {
        found.push((OwnerId(row.try_get("", "owner")?), EndpointId(row.try_get("", "id")?)));
    }
    Ok(found)
}

/// Cancels the queued deliveries of an event; returns how many. The result of a delivery in flight is not recorded.
pub async fn cancel_queued_of_event(
    conn: &impl ConnectionTrait,
    owner: &OwnerId,
    event: &EventId,
    now: DateTime<Utc>,
) -> Result<u64, StoreError> {
    let queued: Vec<String> = deliveries::Entity::find()
        .select_only()
        .column(Delivery::Id)
        .filter(Delivery::State.eq(DeliveryState::Queued.wire()))
        .filter(Delivery::OwnerId.eq(owner.as_str()))
        .filter(Delivery::EventId.eq(event.as_str()))
        .into_tuple()
        .all(conn)
        .await?;
    if queued.is_empty() {
        Ok(0)
    } else {
        cancel(conn, Column::Id.is_in(queued), now).await
    }
}
