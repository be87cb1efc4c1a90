//! When something of the queue can be claimed.

use crate::{
    domain::ids::EndpointId,
    store::{StoreError, queue::ENDPOINTS},
};
use chrono::{DateTime, Utc};
use sea_orm::{ConnectionTrait, DbBackend, Statement};
use serde_json::json;

/// That a delivery waits for the endpoint at hand. PostgreSQL is asked for a range of the index of endpoints: by equality and
/// in the order of time, it would look among all that waits, in the index of times, when most waits for a few endpoints.
/// SQLite reads a part of an index for a comparison of one column, not of two.
fn of_endpoint(backend: DbBackend) -> &'static str {
    match backend {
        DbBackend::Postgres => {
            "(own.owner_id, own.endpoint_id) >= (here.owner_id, here.endpoint_id) \
             AND (own.owner_id, own.endpoint_id) <= (here.owner_id, here.endpoint_id)"
        }
        _ => "own.owner_id = here.owner_id AND own.endpoint_id = here.endpoint_id",
    }
}

/// The longest waiting of an endpoint first.
const LONGEST_FIRST: &str = "own.owner_id, own.endpoint_id, own.next_at";

/// The first time of an endpoint's deliveries that nobody has.
fn free(backend: DbBackend) -> String {
    let is_own = of_endpoint(backend);
    format!(
        "(SELECT own.next_at FROM delivery_queue AS own WHERE {is_own} AND own.lease_until IS NULL \
         ORDER BY {LONGEST_FIRST} LIMIT 1)"
    )
}

/// The first end of a lease among the longest waiting of an endpoint: what is leased stands there while nothing that is due
/// is free. Of more than a thousand leases another one may end a little earlier; it is found with the next look.
fn leased(backend: DbBackend) -> String {
    let is_own = of_endpoint(backend);
    format!(
        "(SELECT min(ahead.lease_until) FROM (SELECT own.lease_until FROM delivery_queue AS own WHERE {is_own} \
         ORDER BY {LONGEST_FIRST} LIMIT 1000) AS ahead)"
    )
}

/// When the next delivery of an endpoint that is not busy can be claimed: now at the earliest, `None` when there is
/// none.
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

/// The smallest of the times that a subquery finds for each endpoint that waits and is not busy.
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
