//! The queue statements for SQLite. [`super::postgres`] has the same statements for PostgreSQL; the same tests cover
//! both.

use super::rows::{AttemptVerdict, ENDPOINTS_MAX, FinishedTry, OWNER_ENDPOINTS_MAX, load_claimed, unleased, whole};
use crate::{
    domain::{
        ids::{EndpointId, OwnerId},
        webhook::{AfterTry, ClaimRequest, ClaimedDelivery, ENDPOINT_PART},
    },
    store::StoreError,
};
use chrono::{DateTime, SecondsFormat, Utc};
use entities::{delivery_attempts, delivery_queue, delivery_queue::Column};
use sea_orm::{
    ColumnTrait, ConnectionTrait, DbBackend, EntityTrait, JsonValue, QueryFilter, QueryTrait, Statement, Value,
    sea_query::{CaseStatement, Expr, ExprTrait},
};
use serde_json::json;
use std::collections::{BTreeMap, HashMap, HashSet};

/// SQL condition: the current endpoint is listed, which means that one of its deliveries is due, and that neither the
/// endpoint nor its owner is excluded.
macro_rules! is_listed {
    () => {
        "(here.next_at <= ?1 AND here.owner_id NOT IN (SELECT value FROM json_each(?8)) \
         AND here.endpoint_id NOT IN (SELECT value FROM json_each(?2)))"
    };
}

/// SQL expression: number of listed endpoints of the current owner so far, including the current endpoint.
macro_rules! ahead {
    () => {
        concat!(
            "(CASE WHEN here.owner_id = endpoints.owner_id THEN endpoints.ahead ELSE 0 END + ",
            is_listed!(),
            ")"
        )
    };
}

/// SQL expression: number of endpoints of the current owner that were read so far, including the current endpoint.
macro_rules! passed {
    () => {
        "(CASE WHEN here.owner_id = endpoints.owner_id THEN endpoints.passed ELSE 0 END + 1)"
    };
}

/// Claims deliveries. Reads the first waiting rows of each endpoint, alternates owners and their endpoints, and leases
/// the chosen rows. When more endpoints wait than are listed, the statement also reads the longest waiting rows.
///
/// The statement finds endpoints one after the other, each by one or two steps in the index, so the length of a backlog
/// does not matter. Each owner has a share of the list, so that the endpoints of one owner cannot fill it. An owner
/// that has used its share, or is excluded, is skipped. Each row of the recursion carries the counts before it, and
/// their owner. The statement names the index because SQLite has no statistics about the length of the queue.
const CLAIM: &str = concat!(
    "\
WITH RECURSIVE endpoints(id, owner_id, ahead, passed, total) AS (\
  SELECT (SELECT id FROM delivery_queue INDEXED BY delivery_queue_endpoint_idx \
    ORDER BY owner_id, endpoint_id, next_at LIMIT 1), '', 0, 0, 0 \
  UNION ALL \
  SELECT coalesce(\
    CASE WHEN here.owner_id NOT IN (SELECT value FROM json_each(?8)) AND ",
    ahead!(),
    " < ?11 AND ",
    passed!(),
    " < ?9 THEN \
      (SELECT later.id FROM delivery_queue AS later INDEXED BY delivery_queue_endpoint_idx \
      WHERE later.owner_id = here.owner_id AND later.endpoint_id > here.endpoint_id \
      ORDER BY later.endpoint_id, later.next_at LIMIT 1) END, \
    (SELECT later.id FROM delivery_queue AS later INDEXED BY delivery_queue_endpoint_idx \
      WHERE later.owner_id > here.owner_id ORDER BY later.owner_id, later.endpoint_id, later.next_at LIMIT 1)), \
    here.owner_id, ",
    ahead!(),
    ", ",
    passed!(),
    ", endpoints.total + ",
    is_listed!(),
    " \
  FROM endpoints JOIN delivery_queue AS here ON here.id = endpoints.id WHERE endpoints.total < ?9), \
listed AS MATERIALIZED (\
  SELECT here.owner_id, here.endpoint_id, ",
    ahead!(),
    " AS ahead \
  FROM endpoints CROSS JOIN delivery_queue AS here ON here.id = endpoints.id WHERE ",
    is_listed!(),
    " LIMIT ?9), \
oldest AS MATERIALIZED (\
  SELECT id, owner_id, endpoint_id, next_at FROM delivery_queue INDEXED BY delivery_queue_due_idx \
  WHERE next_at <= ?1 AND (lease_until IS NULL OR lease_until <= ?1) \
    AND endpoint_id NOT IN (SELECT value FROM json_each(?2)) \
  ORDER BY next_at LIMIT (SELECT CASE WHEN count(*) >= ?9 OR max(ahead) >= ?11 THEN ?3 ELSE 0 END FROM listed)), \
first AS MATERIALIZED (\
  SELECT one.id, one.owner_id, one.endpoint_id, one.next_at FROM listed CROSS JOIN delivery_queue AS one \
  WHERE one.id IN (\
    SELECT own.id FROM delivery_queue AS own INDEXED BY delivery_queue_endpoint_idx \
    WHERE own.owner_id = listed.owner_id AND own.endpoint_id = listed.endpoint_id AND own.next_at <= ?1 \
      AND (own.lease_until IS NULL OR own.lease_until <= ?1) \
    ORDER BY own.next_at LIMIT (SELECT min(?4, max(2 * ?5 / max(1, count(*)), ?10)) FROM listed))), \
due AS MATERIALIZED (SELECT * FROM oldest UNION SELECT * FROM first), \
ranked AS MATERIALIZED (\
  SELECT id, owner_id, next_at, row_number() OVER (PARTITION BY endpoint_id ORDER BY next_at) AS turn FROM due), \
fair AS MATERIALIZED (\
  SELECT id, next_at, row_number() OVER (PARTITION BY owner_id ORDER BY turn, next_at) AS owner_turn \
  FROM ranked WHERE turn <= ?4), \
chosen AS MATERIALIZED (SELECT id FROM fair ORDER BY owner_turn, next_at LIMIT ?5) \
UPDATE delivery_queue SET lease_until = ?6, lease_token = ?7 WHERE id IN (SELECT id FROM chosen) RETURNING id"
);

/// The columns of the log for the end of deliveries.
const ENDED: &str = "\
UPDATE deliveries SET state = ?1, missed = ?2, retry_count = json_extract(tried.value, '$.number') - 1, \
  finished_at = json_extract(tried.value, '$.ended_at')";

/// Assignments to the columns of the log that store an attempt that the endpoint accepted.
const SUCCESS: &str = ", success_number = json_extract(tried.value, '$.number'), \
  success_started_at = json_extract(tried.value, '$.started_at'), \
  success_ended_at = json_extract(tried.value, '$.ended_at'), success_status = json_extract(tried.value, '$.status'), \
  success_response = json_extract(tried.value, '$.response')";

const OF_TRIED: &str = " FROM json_each(?3) AS tried \
  WHERE deliveries.owner_id = json_extract(tried.value, '$.owner') AND deliveries.id = json_extract(tried.value, '$.id')";

/// Claims a batch; the ids of deliveries whose endpoint is inactive or deleted are returned separately.
pub(super) async fn claim(
    conn: &impl ConnectionTrait,
    wanted: &ClaimRequest,
) -> Result<(Vec<ClaimedDelivery>, Vec<String>), StoreError> {
    let busy: Vec<&str> = wanted.busy.iter().map(EndpointId::as_str).collect();
    let served: Vec<&str> = wanted.served.iter().map(OwnerId::as_str).collect();
    let values: [Value; 11] = [
        wanted.now.into(),
        json!(busy).to_string().into(),
        whole(wanted.oldest()),
        whole(wanted.share),
        whole(wanted.limit),
        wanted.lease_until().into(),
        wanted.lease_token.as_str().into(),
        json!(served).to_string().into(),
        whole(ENDPOINTS_MAX),
        whole(ENDPOINT_PART),
        whole(OWNER_ENDPOINTS_MAX),
    ];
    let statement = Statement::from_sql_and_values(DbBackend::Sqlite, CLAIM, values);
    let mut ids: Vec<String> = Vec::new();
    for row in conn.query_all_raw(statement).await? {
        ids.push(row.try_get("", "id")?);
    }
    if ids.is_empty() {
        return Ok((Vec::new(), Vec::new()));
    }
    let claimed = load_claimed(conn, &ids, &wanted.lease_token).await?;
    let sendable: HashSet<&str> = claimed.iter().map(|delivery| delivery.id.as_str()).collect();
    ids.retain(|id| !sendable.contains(id.as_str()));
    Ok((claimed, ids))
}

/// Ends the leases of attempted deliveries and writes their next state. Each attempt is passed with its row for the
/// log. Returns delivery and token of the attempts whose claim was still valid.
pub(super) async fn finish(
    conn: &impl ConnectionTrait,
    tries: &[(&FinishedTry, delivery_attempts::Model)],
) -> Result<HashSet<(String, String)>, StoreError> {
    let mut claims: HashMap<&str, Vec<&(&FinishedTry, delivery_attempts::Model)>> = HashMap::new();
    for tried in tries {
        claims.entry(&tried.0.0.lease_token).or_default().push(tried);
    }
    let mut held = HashSet::new();
    for (lease_token, tries) in claims {
        let (retried, ended): (Vec<_>, Vec<_>) = tries
            .into_iter()
            .partition(|(tried, _)| AttemptVerdict::of(tried) == AttemptVerdict::Retry);
        for id in retry(conn, lease_token, &retried).await? {
            held.insert((id, lease_token.to_owned()));
        }
        let gone = delivery_queue::Entity::delete_many()
            .filter(Column::Id.is_in(ended.iter().map(|(_, row)| row.delivery_id.as_str())))
            .filter(Column::LeaseToken.eq(lease_token))
            .exec_with_returning(conn)
            .await?;
        let gone: HashSet<String> = gone.into_iter().map(|row| row.id).collect();
        let mut groups: BTreeMap<AttemptVerdict, Vec<&delivery_attempts::Model>> = BTreeMap::new();
        for (tried, row) in ended.into_iter().filter(|(_, row)| gone.contains(&row.delivery_id)) {
            groups.entry(AttemptVerdict::of(tried)).or_default().push(row);
        }
        for (verdict, rows) in groups {
            end(conn, verdict, &rows).await?;
        }
        held.extend(gone.into_iter().map(|id| (id, lease_token.to_owned())));
    }
    Ok(held)
}

/// Writes the end of deliveries with the same verdict to the log.
async fn end(
    conn: &impl ConnectionTrait,
    verdict: AttemptVerdict,
    rows: &[&delivery_attempts::Model],
) -> Result<(), StoreError> {
    let tried = rows.iter().map(|row| {
        json!({
            "owner": row.owner_id,
            "id": row.delivery_id,
            "number": row.number,
            "started_at": time(row.started_at),
            "ended_at": time(row.ended_at),
            "status": row.status,
            "response": row.response,
        })
    });
    let values: [Value; 3] = [
        verdict.state().wire().into(),
        verdict.missed().into(),
        JsonValue::from_iter(tried).to_string().into(),
    ];
    let success = if verdict == AttemptVerdict::Arrived {
        SUCCESS
    } else {
        ""
    };
    let sql = [ENDED, success, OF_TRIED].concat();
    conn.execute_raw(Statement::from_sql_and_values(DbBackend::Sqlite, sql, values))
        .await?;
    Ok(())
}

/// A time in the form of this database.
fn time(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::AutoSi, false)
}

/// Schedules the next attempt of claimed deliveries, each at its own time; returns the deliveries whose claim was still
/// valid.
async fn retry(
    conn: &impl ConnectionTrait,
    lease_token: &str,
    tries: &[&(&FinishedTry, delivery_attempts::Model)],
) -> Result<Vec<String>, StoreError> {
    if tries.is_empty() {
        return Ok(Vec::new());
    }
    let mut at = CaseStatement::new();
    for ((_, _, after, _), row) in tries {
        if let AfterTry::RetryAt(time) = after {
            at = at.case(Column::Id.eq(row.delivery_id.as_str()), Expr::value(*time));
        }
    }
    let mut statement = unleased(delivery_queue::Entity::update_many())
        .col_expr(Column::NextAt, at.into())
        .col_expr(Column::RetryCount, Expr::col(Column::RetryCount).add(1))
        .filter(Column::Id.is_in(tries.iter().map(|(_, row)| row.delivery_id.as_str())))
        .filter(Column::LeaseToken.eq(lease_token))
        .into_query();
    statement.returning_col(Column::Id);
    let rows = conn.query_all(&statement).await?;
    rows.iter().map(|row| Ok(row.try_get("", "id")?)).collect()
}

/// Adds attempts to the log.
pub(super) async fn add_tries(
    conn: &impl ConnectionTrait,
    made: Vec<delivery_attempts::Model>,
) -> Result<(), StoreError> {
    delivery_attempts::Entity::insert_many(made.into_iter().map(delivery_attempts::ActiveModel::from))
        .exec_without_returning(conn)
        .await?;
    Ok(())
}
