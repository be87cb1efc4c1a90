//! What the queue of deliveries does, in statements that SQLite understands. [`super::postgres`] says the same in the
//! words of PostgreSQL; the same tests hold for both.

use super::rows::{FinishedTry, OWNERS_MAX, Verdict, is_queued, load_claimed, unleased, whole};
use crate::{
    domain::{
        ids::{DeliveryId, EndpointId, OwnerId},
        webhook::{ClaimedDelivery, DeliveryState, Wanted},
    },
    store::StoreError,
};
use chrono::{DateTime, Utc};
use entities::{deliveries, deliveries::Column, delivery_attempts};
use sea_orm::{
    ColumnTrait, ConnectionTrait, DbBackend, EntityTrait, QueryFilter, QueryTrait, Statement, Value,
    sea_query::{CaseStatement, Expr, ExprTrait, UpdateStatement},
};
use serde_json::json;
use std::collections::{BTreeMap, HashSet};

/// Looks at the longest waiting rows and at the first ones of each owner, lets owners and their endpoints take turns, and
/// leases what was chosen.
///
/// Owners are found one after the other, each by one step in the index of the queue, so that a backlog costs nothing.
/// The index is named because nothing tells SQLite how much of the log is queued.
const CLAIM: &str = "\
WITH RECURSIVE owners(id) AS (\
  SELECT (SELECT owner_id FROM deliveries INDEXED BY deliveries_owner_due_idx WHERE state = 'queued' \
    ORDER BY owner_id LIMIT 1) \
  UNION ALL \
  SELECT (SELECT owner_id FROM deliveries INDEXED BY deliveries_owner_due_idx WHERE state = 'queued' \
    AND owner_id > owners.id ORDER BY owner_id LIMIT 1) FROM owners WHERE owners.id IS NOT NULL \
  LIMIT ?9), \
listed AS MATERIALIZED (SELECT id FROM owners WHERE id IS NOT NULL), \
oldest AS MATERIALIZED (\
  SELECT id, owner_id, endpoint_id, next_at FROM deliveries INDEXED BY deliveries_due_idx \
  WHERE state = 'queued' AND next_at <= ?1 AND (lease_until IS NULL OR lease_until <= ?1) \
    AND endpoint_id NOT IN (SELECT value FROM json_each(?2)) \
  ORDER BY next_at LIMIT ?3), \
first AS MATERIALIZED (\
  SELECT one.id, one.owner_id, one.endpoint_id, one.next_at FROM listed CROSS JOIN deliveries AS one \
  WHERE listed.id NOT IN (SELECT value FROM json_each(?8)) AND one.id IN (\
    SELECT own.id FROM deliveries AS own INDEXED BY deliveries_owner_due_idx \
    WHERE own.state = 'queued' AND own.owner_id = listed.id AND own.next_at <= ?1 \
      AND (own.lease_until IS NULL OR own.lease_until <= ?1) \
      AND own.endpoint_id NOT IN (SELECT value FROM json_each(?2)) \
    ORDER BY own.next_at LIMIT (SELECT max(1, ?5 / max(1, count(*))) FROM listed))), \
due AS MATERIALIZED (SELECT * FROM oldest UNION SELECT * FROM first), \
ranked AS MATERIALIZED (\
  SELECT id, owner_id, next_at, row_number() OVER (PARTITION BY endpoint_id ORDER BY next_at) AS turn FROM due), \
fair AS MATERIALIZED (\
  SELECT id, next_at, row_number() OVER (PARTITION BY owner_id ORDER BY turn, next_at) AS owner_turn \
  FROM ranked WHERE turn <= ?4), \
chosen AS MATERIALIZED (SELECT id FROM fair ORDER BY owner_turn, next_at LIMIT ?5) \
UPDATE deliveries SET lease_until = ?6, lease_token = ?7 WHERE id IN (SELECT id FROM chosen) RETURNING id";

/// Claims a batch; the deliveries whose endpoint is inactive or gone stand apart, by their ids.
pub(super) async fn claim(
    conn: &impl ConnectionTrait,
    wanted: &Wanted,
) -> Result<(Vec<ClaimedDelivery>, Vec<String>), StoreError> {
    let busy: Vec<&str> = wanted.busy.iter().map(EndpointId::as_str).collect();
    let served: Vec<&str> = wanted.served.iter().map(OwnerId::as_str).collect();
    let values: [Value; 9] = [
        wanted.now.into(),
        json!(busy).to_string().into(),
        whole(wanted.oldest()),
        whole(wanted.share),
        whole(wanted.limit),
        wanted.lease_until().into(),
        wanted.lease_token.as_str().into(),
        json!(served).to_string().into(),
        whole(OWNERS_MAX),
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

/// A delivery and when it is finished or due again.
type DueTime<'a> = (&'a DeliveryId, DateTime<Utc>);

/// Ends the leases of tried deliveries; returns delivery and token of those that were still held.
pub(super) async fn finish(
    conn: &impl ConnectionTrait,
    tries: &[FinishedTry],
) -> Result<HashSet<(String, String)>, StoreError> {
    let mut groups: BTreeMap<(&str, Verdict), Vec<DueTime<'_>>> = BTreeMap::new();
    for (delivery, outcome, after, _) in tries {
        let (verdict, at) = Verdict::of(*after, outcome);
        let group = groups.entry((&delivery.lease_token, verdict)).or_default();
        group.push((&delivery.id, at));
    }
    let mut held = HashSet::new();
    for ((lease_token, verdict), deliveries) in groups {
        let statement = follow_up(lease_token, verdict, &deliveries);
        for row in conn.query_all(&statement).await? {
            held.insert((row.try_get("", "id")?, lease_token.to_owned()));
        }
    }
    Ok(held)
}

/// Adds tries to the log.
pub(super) async fn add_tries(
    conn: &impl ConnectionTrait,
    made: Vec<delivery_attempts::Model>,
) -> Result<(), StoreError> {
    delivery_attempts::Entity::insert_many(made.into_iter().map(delivery_attempts::ActiveModel::from))
        .exec_without_returning(conn)
        .await?;
    Ok(())
}

/// One update of all deliveries that share token and verdict, each with its own time.
fn follow_up(lease_token: &str, verdict: Verdict, deliveries: &[DueTime<'_>]) -> UpdateStatement {
    let mut at = CaseStatement::new();
    for (id, time) in deliveries {
        at = at.case(Column::Id.eq(id.as_str()), Expr::value(*time));
    }
    let all = deliveries::Entity::update_many();
    let update = match verdict {
        Verdict::Delivered => unleased(all, DeliveryState::Delivered).col_expr(Column::FinishedAt, at.into()),
        Verdict::Exhausted => unleased(all, DeliveryState::Failed).col_expr(Column::FinishedAt, at.into()),
        Verdict::Retry => unleased(all, DeliveryState::Queued)
            .col_expr(Column::NextAt, at.into())
            .col_expr(Column::RetryCount, Expr::col(Column::RetryCount).add(1)),
    };
    let mut statement = update
        .filter(is_queued())
        .filter(Column::Id.is_in(deliveries.iter().map(|(id, _)| id.as_str())))
        .filter(Column::LeaseToken.eq(lease_token))
        .into_query();
    statement.returning_col(Column::Id);
    statement
}
