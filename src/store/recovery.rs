//! Failed deliveries that wait for another recovery round, and endpoints that fail.
//!
//! A delivery waits for a round while it is `failed` and `recover_at` is set. If its endpoint responds again, the
//! delivery is due from `recover_from` on. The endpoint is marked until none of its deliveries waits, so that a long
//! backlog is queued in batches.

use super::{StoreError, columns, queue};
use crate::domain::{
    ids::{DeliveryId, EndpointId, OwnerId},
    recovery::Recovery,
    webhook::DeliveryState,
};
use chrono::{DateTime, Utc};
use entities::{
    deliveries, deliveries::Column, delivery_queue, webhook_endpoints, webhook_endpoints::Column as Endpoint,
};
use sea_orm::{
    ColumnTrait, Condition, ConnectionTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect, Select,
    sea_query::{CaseStatement, Expr, ExprTrait, Query, SelectStatement},
};
use std::collections::BTreeMap;

/// A delivery and its owner.
pub type OwnedDelivery = (OwnerId, DeliveryId);

/// The rounds of a delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryRounds {
    /// The delivery.
    pub of: OwnedDelivery,
    /// Number of recovery rounds that began.
    pub begun: u32,
    /// When the last round that began was due.
    pub last: Option<DateTime<Utc>>,
}

/// Condition for deliveries that wait for a recovery round. It contains no bound value, because the database then could
/// not use the partial indexes with this condition.
pub(super) fn is_waiting() -> Expr {
    Expr::cust("missed = 'failed' AND NOT is_test AND recover_at IS NOT NULL")
}

/// The rounds of some deliveries.
pub async fn rounds(conn: &impl ConnectionTrait, of: &[OwnedDelivery]) -> Result<Vec<DeliveryRounds>, StoreError> {
    let mut rounds = Vec::new();
    for (owner, ids) in by_owner(of) {
        let rows: Vec<(String, i32, Option<DateTime<Utc>>)> = deliveries::Entity::find()
            .select_only()
            .columns([Column::Id, Column::RecoveryRounds, Column::RecoverAt])
            .filter(Column::OwnerId.eq(owner.as_str()))
            .filter(Column::Id.is_in(ids))
            .into_tuple()
            .all(conn)
            .await?;
        for (id, begun, last) in rows {
            rounds.push(DeliveryRounds {
                of: (owner.clone(), DeliveryId(id)),
                begun: columns::number("recovery_rounds", begun)?,
                last,
            });
        }
    }
    Ok(rounds)
}

/// The ids of deliveries, by their owners.
fn by_owner(of: &[OwnedDelivery]) -> BTreeMap<&OwnerId, Vec<&str>> {
    columns::by_owner(of.iter().map(|(owner, id)| (owner, id.as_str())))
}

/// Sets when the next recovery round of failed deliveries starts; `None` when no round is left.
pub async fn plan(
    conn: &impl ConnectionTrait,
    planned: &[(OwnedDelivery, Option<Recovery>)],
) -> Result<(), StoreError> {
    let planned = planned.iter().map(|((owner, id), next)| (owner, (id, next)));
    for (owner, planned) in columns::by_owner(planned) {
        for planned in planned.chunks(columns::ROWS_MAX) {
            let (mut from, mut at) = (CaseStatement::new(), CaseStatement::new());
            for (id, next) in planned {
                from = from.case(Column::Id.eq(id.as_str()), Expr::value(next.map(|next| next.from)));
                at = at.case(Column::Id.eq(id.as_str()), Expr::value(next.map(|next| next.at)));
            }
            deliveries::Entity::update_many()
                .col_expr(Column::RecoverFrom, from.into())
                .col_expr(Column::RecoverAt, at.into())
                .filter(Column::State.eq(DeliveryState::Failed.wire()))
                .filter(Column::OwnerId.eq(owner.as_str()))
                .filter(Column::Id.is_in(planned.iter().map(|(id, _)| id.as_str())))
                .exec(conn)
                .await?;
        }
    }
    Ok(())
}

/// Deliveries to active endpoints whose next round is due, the longest due first.
pub async fn due(
    conn: &impl ConnectionTrait,
    now: DateTime<Utc>,
    limit: u64,
) -> Result<Vec<OwnedDelivery>, StoreError> {
    let due = waiting(limit)
        .filter(Column::RecoverAt.lte(now))
        .filter(Expr::exists(active_endpoint()));
    Ok(owned(due.order_by_asc(Column::RecoverAt).into_tuple().all(conn).await?))
}

/// Waiting deliveries to an active endpoint that responds again, of which the next round may start already
/// (`recover_from`), the longest waiting first.
pub async fn due_of_endpoint(
    conn: &impl ConnectionTrait,
    endpoint: &EndpointId,
    now: DateTime<Utc>,
    limit: u64,
) -> Result<Vec<OwnedDelivery>, StoreError> {
    let due = waiting(limit)
        .filter(Column::EndpointId.eq(endpoint.as_str()))
        .filter(Column::RecoverFrom.lte(now))
        .filter(Expr::exists(active_endpoint()));
    Ok(owned(
        due.order_by_asc(Column::RecoverFrom).into_tuple().all(conn).await?,
    ))
}

fn owned(rows: Vec<(String, String)>) -> Vec<OwnedDelivery> {
    let owned = |(owner, id)| (OwnerId(owner), DeliveryId(id));
    rows.into_iter().map(owned).collect()
}

/// Subquery for the endpoint of the outer query's delivery; without rows if the endpoint is switched off.
fn active_endpoint() -> SelectStatement {
    let id = Expr::col((webhook_endpoints::Entity, Endpoint::Id));
    Query::select()
        .expr(Expr::val(1))
        .from(webhook_endpoints::Entity)
        .and_where(id.equals((deliveries::Entity, Column::EndpointId)))
        .and_where(Expr::cust("is_active"))
        .to_owned()
}

fn waiting(limit: u64) -> Select<deliveries::Entity> {
    deliveries::Entity::find()
        .select_only()
        .columns([Column::OwnerId, Column::Id])
        .filter(is_waiting())
        .limit(limit)
}

/// Begins the next round of waiting deliveries: they are queued, due immediately, and marked as replays. Needs a
/// transaction.
pub async fn begin(conn: &impl ConnectionTrait, of: &[OwnedDelivery], now: DateTime<Utc>) -> Result<(), StoreError> {
    for (owner, ids) in by_owner(of) {
        let begun = deliveries::Entity::update_many()
            .col_expr(Column::State, Expr::value(DeliveryState::Queued.wire()))
            .col_expr(Column::Missed, Expr::value(None::<String>))
            .col_expr(Column::RecoveryRounds, Expr::col(Column::RecoveryRounds).add(1))
            .col_expr(Column::RetryCount, Expr::value(0))
            .col_expr(Column::FinishedAt, Expr::value(None::<DateTime<Utc>>))
            .col_expr(Column::IsReplay, Expr::value(true))
            .filter(is_waiting())
            .filter(Column::OwnerId.eq(owner.as_str()))
            .filter(Column::Id.is_in(ids))
            .exec_with_returning(conn)
            .await?;
        queue::enqueue(conn, begun.into_iter().map(|delivery| (delivery, now))).await?;
    }
    Ok(())
}

/// Subquery for the deliveries of the outer query's endpoint that wait for a recovery round.
fn of_endpoint() -> SelectStatement {
    let endpoint = Expr::col((deliveries::Entity, Column::EndpointId));
    Query::select()
        .expr(Expr::val(1))
        .from(deliveries::Entity)
        .and_where(endpoint.equals((webhook_endpoints::Entity, Endpoint::Id)))
        .and_where(is_waiting())
        .to_owned()
}

async fn recovering(conn: &impl ConnectionTrait, which: Expr, limit: u64) -> Result<Vec<EndpointId>, StoreError> {
    let ids: Vec<String> = webhook_endpoints::Entity::find()
        .select_only()
        .column(Endpoint::Id)
        .filter(Expr::cust("is_recovering"))
        .filter(which)
        .order_by_asc(Endpoint::Id)
        .limit(limit)
        .into_tuple()
        .all(conn)
        .await?;
    Ok(ids.into_iter().map(EndpointId).collect())
}

/// Endpoints that respond again and have deliveries whose next round may start.
pub async fn ready(conn: &impl ConnectionTrait, now: DateTime<Utc>, limit: u64) -> Result<Vec<EndpointId>, StoreError> {
    let mut due = of_endpoint();
    due.and_where(Expr::col((deliveries::Entity, Column::RecoverFrom)).lte(now));
    recovering(conn, Expr::exists(due), limit).await
}

/// Endpoints that respond again and have no waiting deliveries.
pub async fn settled(conn: &impl ConnectionTrait, limit: u64) -> Result<Vec<EndpointId>, StoreError> {
    recovering(conn, Expr::exists(of_endpoint()).not(), limit).await
}

/// Ends the recovery of those endpoints among the given ones that have no waiting deliveries.
pub async fn end(conn: &impl ConnectionTrait, endpoints: &[EndpointId]) -> Result<(), StoreError> {
    webhook_endpoints::Entity::update_many()
        .col_expr(Endpoint::IsRecovering, Expr::value(false))
        .filter(Endpoint::Id.is_in(endpoints.iter().map(EndpointId::as_str)))
        .filter(Expr::exists(of_endpoint()).not())
        .exec(conn)
        .await?;
    Ok(())
}

/// Records that endpoints respond again.
pub async fn answered(conn: &impl ConnectionTrait, endpoints: &[EndpointId]) -> Result<(), StoreError> {
    webhook_endpoints::Entity::update_many()
        .col_expr(Endpoint::FailingSince, Expr::value(None::<DateTime<Utc>>))
        .col_expr(Endpoint::FailedAt, Expr::value(None::<DateTime<Utc>>))
        .col_expr(Endpoint::IsRecovering, Expr::value(true))
        .filter(Endpoint::Id.is_in(endpoints.iter().map(EndpointId::as_str)))
        .filter(Endpoint::FailingSince.is_not_null())
        .exec(conn)
        .await?;
    Ok(())
}

/// Records that endpoints fail, since `now` unless an earlier time is recorded; returns since when each endpoint fails.
///
/// For endpoints without a failed delivery since `pause_from`, the time becomes `now`, because nothing shows that they
/// failed all the time.
pub async fn failing(
    conn: &impl ConnectionTrait,
    endpoints: &[EndpointId],
    pause_from: Option<DateTime<Utc>>,
    now: DateTime<Utc>,
) -> Result<Vec<(EndpointId, DateTime<Utc>)>, StoreError> {
    let concerned = || Endpoint::Id.is_in(endpoints.iter().map(EndpointId::as_str));
    let last = Expr::col(Endpoint::FailedAt).if_null(Expr::col(Endpoint::FailingSince));
    let begins = Condition::any()
        .add(Endpoint::FailingSince.is_null())
        .add_option(pause_from.map(|from| last.lt(from)));
    webhook_endpoints::Entity::update_many()
        .col_expr(Endpoint::FailingSince, Expr::value(now))
        .col_expr(Endpoint::IsRecovering, Expr::value(false))
        .filter(concerned())
        .filter(begins)
        .exec(conn)
        .await?;
    webhook_endpoints::Entity::update_many()
        .col_expr(Endpoint::FailedAt, Expr::value(now))
        .filter(concerned())
        .exec(conn)
        .await?;
    let rows: Vec<(String, Option<DateTime<Utc>>)> = webhook_endpoints::Entity::find()
        .select_only()
        .columns([Endpoint::Id, Endpoint::FailingSince])
        .filter(concerned())
        .into_tuple()
        .all(conn)
        .await?;
    let failing = rows
        .into_iter()
        .filter_map(|(id, since)| Some((EndpointId(id), since?)));
    Ok(failing.collect())
}

/// Number of queued deliveries, and when the one that waits the longest was due.
pub async fn queued(conn: &impl ConnectionTrait) -> Result<(u64, Option<DateTime<Utc>>), StoreError> {
    let row: Option<(i64, Option<DateTime<Utc>>)> = delivery_queue::Entity::find()
        .select_only()
        .column_as(Expr::cust("COUNT(*)"), "count")
        .column_as(delivery_queue::Column::NextAt.min(), "oldest")
        .into_tuple()
        .one(conn)
        .await?;
    let (count, oldest) = row.unwrap_or_default();
    Ok((columns::number("count", count)?, oldest))
}

/// Number of failed deliveries, tests excluded, and how many of them wait for another round.
pub async fn failed(conn: &impl ConnectionTrait) -> Result<(u64, u64), StoreError> {
    let row: Option<(i64, i64)> = deliveries::Entity::find()
        .select_only()
        .column_as(Expr::cust("COUNT(*)"), "failed")
        .column_as(Column::RecoverAt.count(), "waiting")
        .filter(Expr::cust("missed = 'failed' AND NOT is_test"))
        .into_tuple()
        .one(conn)
        .await?;
    let (failed, waiting) = row.unwrap_or_default();
    Ok((columns::number("failed", failed)?, columns::number("waiting", waiting)?))
}
