//! What waits for endpoints that are off or gone, and its end.

use super::rows::{is_queued, unleased};
use crate::{
    domain::{
        ids::{EndpointId, EventId, OwnerId},
        webhook::DeliveryState,
    },
    store::{StoreError, recovery::is_waiting},
};
use chrono::{DateTime, Utc};
use entities::{deliveries, deliveries::Column};
use sea_orm::{
    ColumnTrait, ConnectionTrait, DbBackend, EntityTrait, QueryFilter, QuerySelect, Statement,
    sea_query::{Expr, LockBehavior, LockType},
};

/// Cancels up to `limit` deliveries that wait for an endpoint, and the rounds of as many that failed; returns how many
/// deliveries were cancelled. Rows that somebody else holds are left for the next call. Needs a transaction.
pub async fn cancel_some_of_endpoint(
    conn: &impl ConnectionTrait,
    owner: &OwnerId,
    endpoint: &EndpointId,
    now: DateTime<Utc>,
    limit: u64,
) -> Result<u64, StoreError> {
    let queued = take(conn, owner, endpoint, is_queued(), limit).await?;
    let failed = take(conn, owner, endpoint, is_waiting(), limit).await?;
    let mut cancelled = 0;
    if !queued.is_empty() {
        let result = unleased(deliveries::Entity::update_many(), DeliveryState::Cancelled)
            .col_expr(Column::FinishedAt, Expr::value(now))
            .filter(is_queued())
            .filter(Column::Id.is_in(queued))
            .exec(conn)
            .await?;
        cancelled = result.rows_affected;
    }
    if !failed.is_empty() {
        // What failed stays so; it has no further round.
        deliveries::Entity::update_many()
            .col_expr(Column::RecoverAt, Expr::value(None::<DateTime<Utc>>))
            .filter(is_waiting())
            .filter(Column::Id.is_in(failed))
            .exec(conn)
            .await?;
    }
    Ok(cancelled)
}

/// Locks some deliveries to an endpoint. It waits for nobody, so that it blocks neither a claim nor the record of tries.
async fn take(
    conn: &impl ConnectionTrait,
    owner: &OwnerId,
    endpoint: &EndpointId,
    which: Expr,
    limit: u64,
) -> Result<Vec<String>, StoreError> {
    let ids = deliveries::Entity::find()
        .select_only()
        .column(Column::Id)
        .filter(which)
        .filter(Column::OwnerId.eq(owner.as_str()))
        .filter(Column::EndpointId.eq(endpoint.as_str()))
        .limit(limit)
        .lock_with_behavior(LockType::Update, LockBehavior::SkipLocked)
        .into_tuple()
        .all(conn)
        .await?;
    Ok(ids)
}

/// Endpoints that are off or gone while something waits for them, with their owners.
///
/// Endpoints are found one after the other, each by one step in an index of what waits, so that a backlog costs nothing.
pub async fn abandoned(conn: &impl ConnectionTrait, limit: u64) -> Result<Vec<(OwnerId, EndpointId)>, StoreError> {
    let backend = conn.get_database_backend();
    // Nothing tells SQLite how much of the log waits.
    let (queue, rounds) = match backend {
        DbBackend::Sqlite => (
            " INDEXED BY deliveries_queued_endpoint_idx",
            " INDEXED BY deliveries_recovery_endpoint_idx",
        ),
        _ => ("", ""),
    };
    let queued = endpoints_of("queued", queue, "state = 'queued'");
    let waiting = "state = 'failed' AND NOT is_test AND recover_at IS NOT NULL";
    let waiting = endpoints_of("waiting", rounds, waiting);
    let sql = format!(
        "WITH RECURSIVE {queued}, {waiting} \
         SELECT known.id AS id, \
           (SELECT owner_id FROM deliveries WHERE endpoint_id = known.id ORDER BY id LIMIT 1) AS owner \
         FROM (SELECT id FROM queued UNION SELECT id FROM waiting) AS known \
         WHERE known.id IS NOT NULL \
           AND NOT EXISTS (SELECT 1 FROM webhook_endpoints WHERE webhook_endpoints.id = known.id AND is_active) \
         ORDER BY known.id LIMIT {limit}"
    );
    let mut found = Vec::new();
    for row in conn.query_all_raw(Statement::from_string(backend, sql)).await? {
        found.push((OwnerId(row.try_get("", "owner")?), EndpointId(row.try_get("", "id")?)));
    }
    Ok(found)
}

/// A recursive part that lists each endpoint of the rows of a partial index once.
fn endpoints_of(name: &str, index: &str, condition: &str) -> String {
    format!(
        "{name}(id) AS (\
           SELECT (SELECT endpoint_id FROM deliveries{index} WHERE {condition} ORDER BY endpoint_id LIMIT 1) \
           UNION ALL \
           SELECT (SELECT endpoint_id FROM deliveries{index} WHERE {condition} AND endpoint_id > {name}.id \
             ORDER BY endpoint_id LIMIT 1) FROM {name} WHERE {name}.id IS NOT NULL)"
    )
}

/// Cancels what is queued of an event; returns how many deliveries. What is in flight is not recorded any more.
pub async fn cancel_queued_of_event(
    conn: &impl ConnectionTrait,
    owner: &OwnerId,
    event: &EventId,
    now: DateTime<Utc>,
) -> Result<u64, StoreError> {
    let result = unleased(deliveries::Entity::update_many(), DeliveryState::Cancelled)
        .col_expr(Column::FinishedAt, Expr::value(now))
        .filter(is_queued())
        .filter(Column::OwnerId.eq(owner.as_str()))
        .filter(Column::EventId.eq(event.as_str()))
        .exec(conn)
        .await?;
    Ok(result.rows_affected)
}
