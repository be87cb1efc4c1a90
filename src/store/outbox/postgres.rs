//! The queue statements that run thousands of times a second, in PostgreSQL's SQL.
//!
//! Each statement has one fixed text, so that PostgreSQL parses and plans it once. A statement takes its rows as one
//! JSON parameter, because a text with two thousand placeholders costs the server more than the rows do.
//! [`super::sqlite`] has the same statements for SQLite; the same tests cover both.

use super::rows::{AttemptVerdict, ENDPOINTS_MAX, FinishedTry, OWNER_ENDPOINTS_MAX, whole};
use crate::{
    domain::{
        ids::{DeliveryId, EndpointId, EventId, OwnerId},
        webhook::{AfterTry, ClaimRequest, ClaimedDelivery, ENDPOINT_PART},
    },
    store::{StoreError, columns, endpoints},
};
use chrono::{DateTime, SecondsFormat, Utc};
use entities::delivery_attempts;
use sea_orm::{ConnectionTrait, DbBackend, JsonValue, Statement, Value};
use serde_json::json;
use std::collections::{BTreeMap, HashSet};

/// Claims deliveries. Reads the first waiting rows of each endpoint, alternates owners and their endpoints, locks and
/// leases the chosen rows, and reads the data that sending needs. When more endpoints wait than are listed, the
/// statement also reads the longest waiting rows.
///
/// The statement finds endpoints one after the other, each by one step in the index, so the length of a backlog does
/// not matter. Each owner has a share of the list, so that the endpoints of one owner cannot fill it. An owner that has
/// used its share, or is excluded, is skipped. The rows of an endpoint are a range of the index by endpoint. With an
/// equality and an order by time, PostgreSQL would search the index by time, among all waiting rows, when most rows
/// wait for a few endpoints. Each part of the statement runs once. The arrays make PostgreSQL use the primary key for
/// the last two parts. Rows that a concurrent claim has chosen are skipped.
const CLAIM: &str = "\
WITH RECURSIVE endpoints AS (\
  (SELECT owner_id, endpoint_id, next_at, 0 AS ahead, 0 AS passed FROM delivery_queue \
    ORDER BY owner_id, endpoint_id, next_at LIMIT 1) \
  UNION ALL \
  SELECT later.owner_id, later.endpoint_id, later.next_at, \
    CASE WHEN later.owner_id = here.owner_id THEN here.ahead ELSE 0 END, \
    CASE WHEN later.owner_id = here.owner_id THEN here.passed ELSE 0 END \
  FROM (\
    SELECT owner_id, endpoint_id, ahead, passed, ahead >= $11 OR passed >= $9 \
      OR owner_id IN (SELECT jsonb_array_elements_text($8)) AS is_over \
    FROM (\
      SELECT owner_id, endpoint_id, passed + 1 AS passed, ahead + CASE WHEN next_at <= $1 \
        AND endpoint_id NOT IN (SELECT jsonb_array_elements_text($2)) THEN 1 ELSE 0 END AS ahead \
      FROM endpoints) counted) here \
  CROSS JOIN LATERAL (\
    (SELECT owner_id, endpoint_id, next_at FROM delivery_queue \
      WHERE NOT here.is_over AND (owner_id, endpoint_id) > (here.owner_id, here.endpoint_id) \
      ORDER BY owner_id, endpoint_id, next_at LIMIT 1) \
    UNION ALL \
    (SELECT owner_id, endpoint_id, next_at FROM delivery_queue \
      WHERE here.is_over AND owner_id > here.owner_id ORDER BY owner_id, endpoint_id, next_at LIMIT 1)) later), \
listed AS MATERIALIZED (\
  SELECT owner_id, endpoint_id, ahead FROM endpoints WHERE next_at <= $1 \
    AND owner_id NOT IN (SELECT jsonb_array_elements_text($8)) \
    AND endpoint_id NOT IN (SELECT jsonb_array_elements_text($2)) \
  LIMIT $9), \
oldest AS MATERIALIZED (\
  SELECT id, owner_id, endpoint_id, next_at FROM delivery_queue \
  WHERE next_at <= $1 AND (lease_until IS NULL OR lease_until <= $1) \
    AND endpoint_id NOT IN (SELECT jsonb_array_elements_text($2)) \
  ORDER BY next_at LIMIT (SELECT CASE WHEN count(*) >= $9 OR max(ahead) + 1 >= $11 THEN $3 ELSE 0 END FROM listed)), \
first AS MATERIALIZED (\
  SELECT own.* FROM listed CROSS JOIN LATERAL (\
    SELECT id, owner_id, endpoint_id, next_at FROM delivery_queue \
    WHERE (owner_id, endpoint_id) >= (listed.owner_id, listed.endpoint_id) \
      AND (owner_id, endpoint_id, next_at) <= (listed.owner_id, listed.endpoint_id, $1) \
      AND (lease_until IS NULL OR lease_until <= $1) \
    ORDER BY owner_id, endpoint_id, next_at \
    LIMIT (SELECT least($4, greatest(2 * $5 / greatest(1, count(*)), $10)) FROM listed)) own), \
due AS MATERIALIZED (SELECT * FROM oldest UNION SELECT * FROM first), \
ranked AS MATERIALIZED (\
  SELECT id, owner_id, next_at, row_number() OVER (PARTITION BY endpoint_id ORDER BY next_at) AS turn FROM due), \
fair AS MATERIALIZED (\
  SELECT id, next_at, row_number() OVER (PARTITION BY owner_id ORDER BY turn, next_at) AS owner_turn \
  FROM ranked WHERE turn <= $4), \
chosen AS MATERIALIZED (\
  SELECT id FROM fair ORDER BY owner_turn, next_at LIMIT $5), \
free AS MATERIALIZED (\
  SELECT id FROM delivery_queue WHERE id = ANY(ARRAY(SELECT id FROM chosen)) \
    AND (lease_until IS NULL OR lease_until <= $1) FOR UPDATE SKIP LOCKED), \
claimed AS (\
  UPDATE delivery_queue SET lease_until = $6, lease_token = $7 WHERE id = ANY(ARRAY(SELECT id FROM free)) \
  RETURNING id, event_id, owner_id, endpoint_id, retry_count, is_test, is_replay, next_at) \
SELECT claimed.*, events.body, endpoint.url, endpoint.secret_sealed, endpoint.former_secrets, endpoint.is_active, \
  endpoint.failing_since IS NOT NULL AS is_failing, endpoint.header_prefix, endpoint.is_approved \
FROM claimed JOIN events ON events.owner_id = claimed.owner_id AND events.id = claimed.event_id \
LEFT JOIN webhook_endpoints endpoint ON endpoint.id = claimed.endpoint_id \
ORDER BY claimed.next_at, claimed.id";

/// Settings for the transaction of a claim. Losing a claim loses no data, so the commit does not wait for the disk:
/// after a failure of the server, the rows can be claimed again. Sequential scans are off, because a plan may be made
/// while the queue is empty and stay in use when the queue is long.
const CLAIM_SETTINGS: &str = "SET LOCAL synchronous_commit = off; SET LOCAL enable_seqscan = off";

/// Settings for the transaction that records attempts.
const RECORD_SETTINGS: &str = "SET LOCAL enable_seqscan = off";

/// Records those attempts of a batch that end their deliveries. A delivery leaves the queue only if it is still claimed
/// with the token of the attempt.
const ENDED: &str = "\
WITH tried AS MATERIALIZED (SELECT * FROM jsonb_to_recordset($3) AS tried(\
  id text, token text, number int, started_at timestamptz, ended_at timestamptz, status int, response text)), \
ended AS (\
  DELETE FROM delivery_queue USING tried \
  WHERE delivery_queue.id = tried.id AND delivery_queue.lease_token = tried.token \
  RETURNING tried.*, delivery_queue.owner_id) \
UPDATE deliveries SET state = $1, missed = $2, retry_count = ended.number - 1, finished_at = ended.ended_at";

/// Assignments to the columns of the log that store an attempt that the endpoint accepted.
const SUCCESS: &str = ", success_number = ended.number, success_started_at = ended.started_at, \
  success_ended_at = ended.ended_at, success_status = ended.status, success_response = ended.response";

const OF_ENDED: &str = " FROM ended \
  WHERE deliveries.owner_id = ended.owner_id AND deliveries.id = ended.id RETURNING ended.id, ended.token";

/// Ends the leases that are still valid, and schedules the next attempts of their deliveries.
const RETRY: &str = "\
UPDATE delivery_queue SET lease_until = NULL, lease_token = NULL, next_at = tried.next_at, \
  retry_count = retry_count + 1 \
FROM jsonb_to_recordset($1) AS tried(id text, token text, next_at timestamptz) \
WHERE delivery_queue.id = tried.id AND delivery_queue.lease_token = tried.token \
RETURNING tried.id, tried.token";

/// Vacuums the queue. The statement skips a table that is already being vacuumed, and never waits to truncate the file
/// of the table.
const TIDY: &str = "VACUUM (SKIP_LOCKED, TRUNCATE OFF) delivery_queue";

const ADD_TRIES: &str = "\
INSERT INTO delivery_attempts (owner_id, delivery_id, id, number, started_at, ended_at, status, error, response) \
SELECT owner_id, delivery_id, id, number, started_at, ended_at, status, error, response FROM jsonb_to_recordset($1) \
AS made(owner_id text, delivery_id text, id text, number int, started_at timestamptz, ended_at timestamptz, status int, \
  error text, response text)";

fn statement(sql: impl Into<String>, values: impl IntoIterator<Item = Value>) -> Statement {
    Statement::from_sql_and_values(DbBackend::Postgres, sql, values)
}

fn time(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Nanos, true)
}

/// Claims a batch; the ids of deliveries whose endpoint is inactive or deleted are returned separately.
pub(super) async fn claim(
    conn: &impl ConnectionTrait,
    wanted: &ClaimRequest,
) -> Result<(Vec<ClaimedDelivery>, Vec<String>), StoreError> {
    conn.execute_unprepared(CLAIM_SETTINGS).await?;
    let busy: Vec<&str> = wanted.busy.iter().map(EndpointId::as_str).collect();
    let served: Vec<&str> = wanted.served.iter().map(OwnerId::as_str).collect();
    let claim = statement(
        CLAIM,
        [
            wanted.now.into(),
            json!(busy).into(),
            whole(wanted.oldest()),
            whole(wanted.share),
            whole(wanted.limit),
            wanted.lease_until().into(),
            wanted.lease_token.as_str().into(),
            json!(served).into(),
            whole(ENDPOINTS_MAX),
            whole(ENDPOINT_PART),
            whole(OWNER_ENDPOINTS_MAX),
        ],
    );
    let (mut claimed, mut unsendable) = (Vec::new(), Vec::new());
    for row in conn.query_all_raw(claim).await? {
        let id: String = row.try_get("", "id")?;
        if row.try_get::<Option<bool>>("", "is_active")? != Some(true) {
            unsendable.push(id);
            continue;
        }
        let former: Option<JsonValue> = row.try_get("", "former_secrets")?;
        claimed.push(ClaimedDelivery {
            id: DeliveryId(id),
            event: EventId(row.try_get("", "event_id")?),
            owner: OwnerId(row.try_get("", "owner_id")?),
            endpoint: EndpointId(row.try_get("", "endpoint_id")?),
            url: row.try_get("", "url")?,
            secret_sealed: row.try_get("", "secret_sealed")?,
            former_secrets: endpoints::former_secrets(former)?,
            is_approved: row.try_get("", "is_approved")?,
            body: row.try_get("", "body")?,
            retry_count: columns::number("retry_count", row.try_get::<i32>("", "retry_count")?)?,
            is_test: row.try_get("", "is_test")?,
            is_replay: row.try_get("", "is_replay")?,
            is_endpoint_failing: row.try_get("", "is_failing")?,
            header_prefix: row.try_get("", "header_prefix")?,
            lease_token: wanted.lease_token.clone(),
        });
    }
    Ok((claimed, unsendable))
}

/// Ends the leases of attempted deliveries and writes their next state. Each attempt is passed with its row for the
/// log. Returns delivery and token of the attempts whose claim was still valid.
pub(super) async fn finish(
    conn: &impl ConnectionTrait,
    tries: &[(&FinishedTry, delivery_attempts::Model)],
) -> Result<HashSet<(String, String)>, StoreError> {
    conn.execute_unprepared(RECORD_SETTINGS).await?;
    let mut groups: BTreeMap<AttemptVerdict, Vec<JsonValue>> = BTreeMap::new();
    for (tried, row) in tries {
        let (delivery, _, after, _) = tried;
        let next_at = match after {
            AfterTry::RetryAt(at) => Some(time(*at)),
            _ => None,
        };
        let row = json!({
            "id": row.delivery_id,
            "token": delivery.lease_token,
            "number": row.number,
            "started_at": time(row.started_at),
            "ended_at": time(row.ended_at),
            "next_at": next_at,
            "status": row.status,
            "response": row.response,
        });
        groups.entry(AttemptVerdict::of(tried)).or_default().push(row);
    }
    let mut held = HashSet::new();
    for (verdict, rows) in groups {
        let rows = JsonValue::Array(rows).into();
        let ended = [verdict.state().wire().into(), verdict.missed().into()];
        let finish = match verdict {
            AttemptVerdict::Retry => statement(RETRY, [rows]),
            AttemptVerdict::Arrived => statement([ENDED, SUCCESS, OF_ENDED].concat(), ended.into_iter().chain([rows])),
            _ => statement([ENDED, OF_ENDED].concat(), ended.into_iter().chain([rows])),
        };
        for row in conn.query_all_raw(finish).await? {
            held.insert((row.try_get("", "id")?, row.try_get("", "token")?));
        }
    }
    Ok(held)
}

/// Removes the dead rows of deliveries that have left the queue.
pub(super) async fn tidy(conn: &impl ConnectionTrait) -> Result<(), StoreError> {
    conn.execute_unprepared(TIDY).await?;
    Ok(())
}

/// Adds attempts to the log.
pub(super) async fn add_tries(
    conn: &impl ConnectionTrait,
    made: Vec<delivery_attempts::Model>,
) -> Result<(), StoreError> {
    let rows: Vec<JsonValue> = made
        .into_iter()
        .map(|tried| {
            json!({
                "owner_id": tried.owner_id,
                "delivery_id": tried.delivery_id,
                "id": tried.id,
                "number": tried.number,
                "started_at": time(tried.started_at),
                "ended_at": time(tried.ended_at),
                "status": tried.status,
                "error": tried.error,
                "response": tried.response,
            })
        })
        .collect();
    conn.execute_raw(statement(ADD_TRIES, [JsonValue::Array(rows).into()]))
        .await?;
    Ok(())
}
