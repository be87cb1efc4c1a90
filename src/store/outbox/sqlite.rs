//! What the queue of deliveries does, in statements that SQLite understands. [`super::postgres`] says the same in the
//! words of PostgreSQL; the same tests hold for both.

use super::rows::{FinishedTry, Verdict, is_queued, load_claimed, unleased};
use crate::{
    domain::{
        ids::{DeliveryId, EndpointId},
        webhook::{ClaimedDelivery, DeliveryState, Wanted},
    },
    store::StoreError,
};
use chrono::{DateTime, Utc};
use entities::{deliveries, deliveries::Column, delivery_attempts};
use sea_orm::{
    ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QueryTrait,
    sea_query::{
        CaseStatement, CommonTableExpression, Expr, ExprTrait, Order, Query, SelectStatement, UpdateStatement,
        WindowStatement, WithClause,
    },
};
use std::collections::{BTreeMap, HashSet};

/// Claims a batch; the deliveries whose endpoint is inactive or gone stand apart, by their ids.
pub(super) async fn claim(
    conn: &impl ConnectionTrait,
    wanted: &Wanted,
) -> Result<(Vec<ClaimedDelivery>, Vec<String>), StoreError> {
    let mut oldest = Query::select()
        .columns([Column::Id, Column::OwnerId, Column::EndpointId, Column::NextAt])
        .from(deliveries::Entity)
        .and_where(is_queued())
        .and_where(Column::NextAt.lte(wanted.now))
        .and_where(Column::LeaseUntil.is_null().or(Column::LeaseUntil.lte(wanted.now)))
        .order_by(Column::NextAt, Order::Asc)
        .limit(wanted.limit.saturating_mul(2))
        .to_owned();
    if !wanted.busy.is_empty() {
        oldest.and_where(Column::EndpointId.is_not_in(wanted.busy.iter().map(EndpointId::as_str)));
    }
    let of_endpoint = WindowStatement::partition_by(Column::EndpointId)
        .order_by(Column::NextAt, Order::Asc)
        .to_owned();
    let ranked = Query::select()
        .columns([Column::Id, Column::OwnerId, Column::NextAt])
        .expr_window_as(Expr::cust("ROW_NUMBER()"), of_endpoint, "turn")
        .from("oldest")
        .to_owned();
    let of_owner = WindowStatement::partition_by(Column::OwnerId)
        .order_by("turn", Order::Asc)
        .order_by(Column::NextAt, Order::Asc)
        .to_owned();
    let fair = Query::select()
        .columns([Column::Id, Column::NextAt])
        .expr_window_as(Expr::cust("ROW_NUMBER()"), of_owner, "owner_turn")
        .from("ranked")
        .and_where(Expr::col("turn").lte(i64::try_from(wanted.share).unwrap_or(i64::MAX)))
        .to_owned();
    let chosen = Query::select()
        .column(Column::Id)
        .from("fair")
        .order_by("owner_turn", Order::Asc)
        .order_by(Column::NextAt, Order::Asc)
        .limit(wanted.limit)
        .to_owned();
    let selection = |name: &'static str, query: SelectStatement| {
        CommonTableExpression::new()
            .table_name(name)
            .query(query)
            .materialized(true)
            .to_owned()
    };
    let claim = Query::update()
        .table(deliveries::Entity)
        .value(Column::LeaseUntil, wanted.lease_until())
        .value(Column::LeaseToken, wanted.lease_token.as_str())
        .and_where(Column::Id.in_subquery(Query::select().column(Column::Id).from("chosen").to_owned()))
        .returning_col(Column::Id)
        .to_owned();
    let statement = WithClause::new()
        .cte(selection("oldest", oldest))
        .cte(selection("ranked", ranked))
        .cte(selection("fair", fair))
        .cte(selection("chosen", chosen))
        .to_owned()
        .query(claim);
    let mut ids: Vec<String> = Vec::new();
    for row in conn.query_all(&statement).await? {
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
