//! What the queue of deliveries does thousands of times a second, in the SQL of PostgreSQL.
//!
//! Each statement has one fixed text, so that it is parsed and planned once, and takes its rows as one JSON parameter;
//! a text with two thousand placeholders costs the server more than the rows do. [`super::sqlite`] says the same for
//! SQLite; the same tests hold for both.

use super::rows::{FinishedTry, OWNERS_MAX, Verdict, whole};
use crate::{
    domain::{
        ids::{DeliveryId, EndpointId, EventId, OwnerId},
        webhook::{ClaimedDelivery, DeliveryState, Wanted},
    },
    store::{StoreError, columns, endpoints},
};
use chrono::{DateTime, SecondsFormat, Utc};
use sea_orm::{ConnectionTrait, DbBackend, JsonValue, Statement, Value};
use serde_json::json;
use std::collections::{BTreeMap, HashSet};

/// Looks at the longest waiting rows and at the first ones of each owner, locks them where the indexes lead, lets owners
/// and their endpoints take turns, leases what was chosen, and reads what sending needs.
///
/// Owners are found one after the other, each by one step in the index of the queue, so that a backlog costs nothing.
/// Each part runs once: as a plain subquery it may run again and lock more. The array keeps the update on the primary
/// key, whatever the server believes of the size of the table.
const CLAIM: &str = "\
WITH RECURSIVE owners AS (\
  (SELECT owner_id AS id FROM deliveries WHERE state = 'queued' ORDER BY owner_id, next_at LIMIT 1) \
  UNION ALL \
  SELECT (SELECT owner_id FROM deliveries WHERE state = 'queued' AND owner_id > owners.id \
    ORDER BY owner_id, next_at LIMIT 1) FROM owners WHERE owners.id IS NOT NULL), \
listed AS MATERIALIZED (SELECT id FROM owners WHERE id IS NOT NULL LIMIT $9), \
oldest AS MATERIALIZED (\
  SELECT id, owner_id, endpoint_id, next_at FROM deliveries \
  WHERE state = 'queued' AND next_at <= $1 AND (lease_until IS NULL OR lease_until <= $1) \
    AND endpoint_id NOT IN (SELECT jsonb_array_elements_text($2)) \
  ORDER BY next_at LIMIT $3 FOR UPDATE SKIP LOCKED), \
first AS MATERIALIZED (\
  SELECT own.* FROM listed CROSS JOIN LATERAL (\
    SELECT id, owner_id, endpoint_id, next_at FROM deliveries \
    WHERE state = 'queued' AND owner_id = listed.id AND next_at <= $1 AND (lease_until IS NULL OR lease_until <= $1) \
      AND endpoint_id NOT IN (SELECT jsonb_array_elements_text($2)) \
    ORDER BY next_at LIMIT (SELECT greatest(1, $5 / greatest(1, count(*))) FROM listed) FOR UPDATE SKIP LOCKED) own \
  WHERE listed.id NOT IN (SELECT jsonb_array_elements_text($8))), \
due AS MATERIALIZED (SELECT * FROM oldest UNION SELECT * FROM first), \
ranked AS MATERIALIZED (\
  SELECT id, owner_id, next_at, row_number() OVER (PARTITION BY endpoint_id ORDER BY next_at) AS turn FROM due), \
fair AS MATERIALIZED (\
  SELECT id, next_at, row_number() OVER (PARTITION BY owner_id ORDER BY turn, next_at) AS owner_turn \
  FROM ranked WHERE turn <= $4), \
chosen AS MATERIALIZED (\
  SELECT id FROM fair ORDER BY owner_turn, next_at LIMIT $5), \
claimed AS (\
  UPDATE deliveries SET lease_until = $6, lease_token = $7 WHERE id = ANY(ARRAY(SELECT id FROM chosen)) \
  RETURNING id, event_id, owner_id, endpoint_id, retry_count, is_test, is_replay, next_at) \
SELECT claimed.*, events.body, endpoint.url, endpoint.secret_sealed, endpoint.former_secrets, endpoint.is_active, \
  endpoint.failing_since IS NOT NULL AS is_failing, endpoint.header_prefix, endpoint.is_approved \
FROM claimed JOIN events ON events.id = claimed.event_id \
LEFT JOIN webhook_endpoints endpoint ON endpoint.id = claimed.endpoint_id \
ORDER BY claimed.next_at, claimed.id";

/// Ends leases that are still held, each under its own token and with its own time.
const FINISH: &str = "\
UPDATE deliveries SET state = $1, lease_until = NULL, lease_token = NULL, finished_at = tried.at \
FROM jsonb_to_recordset($2) AS tried(id text, token text, at timestamptz) \
WHERE deliveries.id = tried.id AND deliveries.lease_token = tried.token AND deliveries.state = 'queued' \
RETURNING tried.id, tried.token";

/// The same for deliveries that are tried again.
const RETRY: &str = "\
UPDATE deliveries SET state = $1, lease_until = NULL, lease_token = NULL, next_at = tried.at, \
  retry_count = retry_count + 1 \
FROM jsonb_to_recordset($2) AS tried(id text, token text, at timestamptz) \
WHERE deliveries.id = tried.id AND deliveries.lease_token = tried.token AND deliveries.state = 'queued' \
RETURNING tried.id, tried.token";

const ADD_TRIES: &str = "\
INSERT INTO delivery_attempts (id, delivery_id, number, started_at, ended_at, status, error, response) \
SELECT id, delivery_id, number, started_at, ended_at, status, error, response FROM jsonb_to_recordset($1) \
AS made(id text, delivery_id text, number int, started_at timestamptz, ended_at timestamptz, status int, \
  error text, response text)";

fn statement(sql: &str, values: impl IntoIterator<Item = Value>) -> Statement {
    Statement::from_sql_and_values(DbBackend::Postgres, sql, values)
}

fn time(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Nanos, true)
}

/// Claims a batch; the deliveries whose endpoint is inactive or gone stand apart, by their ids.
pub(super) async fn claim(
    conn: &impl ConnectionTrait,
    wanted: &Wanted,
) -> Result<(Vec<ClaimedDelivery>, Vec<String>), StoreError> {
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
            whole(OWNERS_MAX),
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

/// Ends the leases of tried deliveries; returns delivery and token of those that were still held.
pub(super) async fn finish(
    conn: &impl ConnectionTrait,
    tries: &[FinishedTry],
) -> Result<HashSet<(String, String)>, StoreError> {
    let mut groups: BTreeMap<Verdict, Vec<JsonValue>> = BTreeMap::new();
    for (delivery, outcome, after, _) in tries {
        let (verdict, at) = Verdict::of(*after, outcome);
        let row = json!({ "id": delivery.id.as_str(), "token": delivery.lease_token, "at": time(at) });
        groups.entry(verdict).or_default().push(row);
    }
    let mut held = HashSet::new();
    for (verdict, rows) in groups {
        let (sql, state) = match verdict {
            Verdict::Delivered => (FINISH, DeliveryState::Delivered),
            Verdict::Retry => (RETRY, DeliveryState::Queued),
            Verdict::Exhausted => (FINISH, DeliveryState::Failed),
        };
        let finish = statement(sql, [state.wire().into(), JsonValue::Array(rows).into()]);
        for row in conn.query_all_raw(finish).await? {
            held.insert((row.try_get("", "id")?, row.try_get("", "token")?));
        }
    }
    Ok(held)
}

/// Adds tries to the log.
pub(super) async fn add_tries(
    conn: &impl ConnectionTrait,
    made: Vec<entities::delivery_attempts::Model>,
) -> Result<(), StoreError> {
    let rows: Vec<JsonValue> = made
        .into_iter()
        .map(|tried| {
            json!({
                "id": tried.id,
                "delivery_id": tried.delivery_id,
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
