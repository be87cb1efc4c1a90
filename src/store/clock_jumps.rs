//! Changes the stored times at which deliveries are due, when the clock of the machine has jumped.

use super::{StoreError, recovery::is_waiting};
use chrono::{DateTime, TimeDelta, Utc};
use entities::{
    deliveries::{Column, Entity},
    delivery_queue::{Column as QueueColumn, Entity as Queue},
    webhook_endpoints::{Column as Endpoint, Entity as Endpoints},
};
use sea_orm::{
    ColumnTrait, Condition, ConnectionTrait, EntityTrait, QueryFilter, QuerySelect,
    sea_query::{Expr, ExprTrait},
};

/// A nullable time.
type Time = Option<DateTime<Utc>>;

/// Shifts, by the size of a jump, the retry times and lease ends of queued deliveries that are after `from` and not
/// after `until`. Returns how many.
///
/// Source: rules D.8.
pub async fn shift(
    conn: &impl ConnectionTrait,
    from: DateTime<Utc>,
    until: DateTime<Utc>,
    by: TimeDelta,
) -> Result<usize, StoreError> {
    let mut moved = 0;
    for column in [QueueColumn::NextAt, QueueColumn::LeaseUntil] {
        let rows: Vec<(String, DateTime<Utc>)> = Queue::find()
            .select_only()
            .columns([QueueColumn::Id, column])
            .filter(column.gt(from).and(column.lte(until)))
            .into_tuple()
            .all(conn)
            .await?;
        moved += rows.len();
        for (id, time) in rows {
            Queue::update_many()
                .col_expr(column, Expr::value(time + by))
                .filter(QueueColumn::Id.eq(id))
                .exec(conn)
                .await?;
        }
    }
    Ok(moved)
}

/// Sets retry times and lease ends of queued deliveries that are after `limit` to `now`; returns how many.
///
/// Source: rules D.8.
pub async fn end_waits(
    conn: &impl ConnectionTrait,
    limit: DateTime<Utc>,
    now: DateTime<Utc>,
) -> Result<u64, StoreError> {
    let mut ended = 0;
    for column in [QueueColumn::NextAt, QueueColumn::LeaseUntil] {
        let update = Queue::update_many()
            .col_expr(column, Expr::value(now))
            .filter(column.gt(limit));
        ended += update.exec(conn).await?.rows_affected;
    }
    Ok(ended)
}

/// Shifts the recovery rounds that deliveries wait for, after the clock jumped from `before` to `now`; returns the
/// count. A shifted round is not shifted again.
///
/// Source: rules D.8.
pub async fn shift_rounds(
    conn: &impl ConnectionTrait,
    before: DateTime<Utc>,
    by: TimeDelta,
    now: DateTime<Utc>,
) -> Result<usize, StoreError> {
    let is_forward = by > TimeDelta::zero();
    let written_before = if is_forward {
        // A round that was already shifted starts at a time that the clock skipped, so this condition excludes it.
        Column::RecoverFrom.lte(before).and(Column::RecoverAt.gt(before))
    } else {
        Column::FinishedAt.gt(now)
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
        let (from, finished) = if is_forward {
            (
                moved(from).map(|from| Ord::max(from, before + TimeDelta::milliseconds(1))),
                finished,
            )
        } else {
            (moved(from), moved(finished))
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

/// Makes the recovery rounds of deliveries that failed after `now` due immediately; returns how many.
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

/// Lets the failure period of endpoints start at `now`, if its stored start is at or before `from`, or in the future.
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
