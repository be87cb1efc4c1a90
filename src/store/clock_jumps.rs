//! Times that deliveries wait for, moved along when the clock of the machine jumps.

use super::{StoreError, recovery::is_waiting};
use chrono::{DateTime, TimeDelta, Utc};
use entities::{
    deliveries::{Column, Entity},
    delivery_queue::{Column as Queued, Entity as Queue},
    webhook_endpoints::{Column as Endpoint, Entity as Endpoints},
};
use sea_orm::{
    ColumnTrait, Condition, ConnectionTrait, EntityTrait, QueryFilter, QuerySelect,
    sea_query::{Expr, ExprTrait},
};

/// A time that a row may lack.
type Time = Option<DateTime<Utc>>;

/// Moves the times of queued deliveries that lie after `from`, and not after `until`, by as much; returns the count.
///
/// Source: rules D.8.
pub async fn shift(
    conn: &impl ConnectionTrait,
    from: DateTime<Utc>,
    until: DateTime<Utc>,
    by: TimeDelta,
) -> Result<usize, StoreError> {
    let mut moved = 0;
    for column in [Queued::NextAt, Queued::LeaseUntil] {
        let rows: Vec<(String, DateTime<Utc>)> = Queue::find()
            .select_only()
            .columns([Queued::Id, column])
            .filter(column.gt(from).and(column.lte(until)))
            .into_tuple()
            .all(conn)
            .await?;
        moved += rows.len();
        for (id, time) in rows {
            Queue::update_many()
                .col_expr(column, Expr::value(time + by))
                .filter(Queued::Id.eq(id))
                .exec(conn)
                .await?;
        }
    }
    Ok(moved)
}

/// Ends the waiting of queued deliveries that would last beyond `limit`; returns how many rows.
///
/// Source: rules D.8.
pub async fn end_waits(
    conn: &impl ConnectionTrait,
    limit: DateTime<Utc>,
    now: DateTime<Utc>,
) -> Result<u64, StoreError> {
    let mut ended = 0;
    for column in [Queued::NextAt, Queued::LeaseUntil] {
        let update = Queue::update_many()
            .col_expr(column, Expr::value(now))
            .filter(column.gt(limit));
        ended += update.exec(conn).await?.rows_affected;
    }
    Ok(ended)
}

/// Moves the rounds that deliveries wait for by as much as the clock jumped at `before`, and shows `now`; returns the
/// count. What was moved once is not moved again.
///
/// Source: rules D.8.
pub async fn shift_rounds(
    conn: &impl ConnectionTrait,
    before: DateTime<Utc>,
    by: TimeDelta,
    now: DateTime<Utc>,
) -> Result<usize, StoreError> {
    let is_forward = by > TimeDelta::zero();
    let written_before = match is_forward {
        // What was moved has a time that the clock left out.
        true => Column::RecoverFrom.lte(before).and(Column::RecoverAt.gt(before)),
        false => Column::FinishedAt.gt(now),
    };
    let rows: Vec<(String, String, Time, Time, Time)> = Entity::find()
        .select_only()
        .columns([Column::OwnerId, Column::Id])
        .columns([Column::RecoverFrom, Column::RecoverAt, Column::FinishedAt])
        .filter(is_waiting())
        .filter(written_before)
        .into_tuple()
        .all(conn)
        .await?;
    let count = rows.len();
    for (owner, id, from, at, finished) in rows {
        let moved = |time: Time| time.map(|time| time + by);
        let (from, finished) = match is_forward {
            true => (
                moved(from).map(|from| Ord::max(from, before + TimeDelta::milliseconds(1))),
                finished,
            ),
            false => (moved(from), moved(finished)),
        };
        Entity::update_many()
            .col_expr(Column::RecoverFrom, Expr::value(from))
            .col_expr(Column::RecoverAt, Expr::value(moved(at)))
            .col_expr(Column::FinishedAt, Expr::value(finished))
            .filter(Column::OwnerId.eq(owner))
            .filter(Column::Id.eq(id))
            .exec(conn)
            .await?;
    }
    Ok(count)
}

/// Makes the rounds due at once of deliveries that failed after `now`; returns how many.
///
/// Source: rules D.8.
pub async fn end_waits_for_rounds(conn: &impl ConnectionTrait, now: DateTime<Utc>) -> Result<u64, StoreError> {
    let update = Entity::update_many()
        .col_expr(Column::RecoverFrom, Expr::value(now))
        .col_expr(Column::RecoverAt, Expr::value(now))
        .col_expr(Column::FinishedAt, Expr::value(now))
        .filter(is_waiting())
        .filter(Column::FinishedAt.gt(now));
    Ok(update.exec(conn).await?.rows_affected)
}

/// Lets the time begin anew, at `now`, of endpoints that take nothing since `from` or earlier, or since a time to come.
///
/// Source: rules D.8.
pub async fn begin_failing_anew(
    conn: &impl ConnectionTrait,
    from: Option<DateTime<Utc>>,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let concerned = Condition::any()
        .add(Endpoint::FailingSince.gt(now))
        .add(Endpoint::FailedAt.gt(now))
        .add_option(from.map(|from| Endpoint::FailingSince.lte(from)));
    Endpoints::update_many()
        .col_expr(Endpoint::FailingSince, Expr::value(now))
        .col_expr(Endpoint::FailedAt, Expr::value(now))
        .filter(concerned)
        .exec(conn)
        .await?;
    Ok(())
}
