//! When a queued delivery can be claimed.

use crate::{
    domain::ids::EndpointId,
    store::{StoreError, queue::ENDPOINTS},
};
use chrono::{DateTime, Utc};
use sea_orm::{ConnectionTrait, DbBackend, Statement};
use serde_json::json;

/// Condition for the deliveries of the current endpoint. For PostgreSQL it is written as a range (`>=` and `<=`), so
/// that the index by endpoint is used. With an equality, PostgreSQL may use the index by time instead and read all
/// waiting deliveries. For SQLite it is an equality, because SQLite uses the index for a range of one column, but not
/// of two.
fn of_endpoint(backend: DbBackend) -> &'static str {
    match backend {
        DbBackend::Postgres => {
            "(own.owner_id, own.endpoint_id) >= (here.owner_id, here.endpoint_id) \
             AND (own.owner_id, own.endpoint_id) <= (here.owner_id, here.endpoint_id)"
        }
        _ => "own.owner_id = here.owner_id AND own.endpoint_id = here.endpoint_id",
    }
}

/// Order of the deliveries of an endpoint, the longest waiting first.
const LONGEST_FIRST: &str = "own.owner_id, own.endpoint_id, own.next_at";

/// The earliest due time among an endpoint's deliveries without a lease.
fn free(backend: DbBackend) -> String {
    let is_own = of_endpoint(backend);
    format!(
        "(SELECT own.next_at FROM delivery_queue AS own WHERE {is_own} AND own.lease_until IS NULL \
         ORDER BY {LONGEST_FIRST} LIMIT 1)"
    )
}

/// The earliest end of a lease among the thousand longest waiting deliveries of an endpoint. The leased deliveries are
/// among them while no other delivery is due. With more than a thousand leased deliveries, another lease may end
/// slightly earlier; the next check finds it.
fn leased(backend: DbBackend) -> String {
    let is_own = of_endpoint(backend);
    format!(
        "(SELECT min(ahead.lease_until) FROM (SELECT own.lease_until FROM delivery_queue AS own WHERE {is_own} \
         ORDER BY {LONGEST_FIRST} LIMIT 1000) AS ahead)"
    )
}

/// When the next delivery can be claimed, `now` at the earliest. Deliveries of the endpoints in `busy` are excluded;
/// `None` when no other delivery is queued.
pub async fn next_due(
    conn: &impl ConnectionTrait,
    now: DateTime<Utc>,
    busy: &[EndpointId],
) -> Result<Option<DateTime<Utc>>, StoreError> {
    let backend = conn.get_database_backend();
    let free = earliest(conn, &free(backend), busy).await?;
    if free.is_some_and(|free| free <= now) {
        return Ok(Some(now));
    }
    let leased = earliest(conn, &leased(backend), busy).await?;
    let next = free.into_iter().chain(leased).min();
    Ok(next.map(|next| Ord::max(next, now)))
}

/// The earliest of the times that a subquery returns, one for each endpoint that has queued deliveries and is not busy.
async fn earliest(
    conn: &impl ConnectionTrait,
    time: &str,
    busy: &[EndpointId],
) -> Result<Option<DateTime<Utc>>, StoreError> {
    let busy = json!(busy.iter().map(EndpointId::as_str).collect::<Vec<_>>());
    let backend = conn.get_database_backend();
    let (list, busy) = match backend {
        DbBackend::Postgres => ("SELECT jsonb_array_elements_text($1)", busy.into()),
        _ => ("SELECT value FROM json_each($1)", busy.to_string().into()),
    };
    let sql = format!(
        "WITH RECURSIVE {ENDPOINTS} SELECT min({time}) AS time \
         FROM endpoints JOIN delivery_queue AS here ON here.id = endpoints.id WHERE here.endpoint_id NOT IN ({list})"
    );
    let row = conn
        .query_one_raw(Statement::from_sql_and_values(backend, sql, [busy]))
        .await?;
    row.map_or(Ok(None), |row| Ok(row.try_get("", "time")?))
}
