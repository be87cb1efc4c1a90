//! Times that deliveries wait for, moved along when the clock of the machine jumps.

use super::StoreError;
use chrono::{DateTime, TimeDelta, Utc};
use entities::deliveries::{Column, Entity};
use sea_orm::{
    ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QuerySelect,
    sea_query::{Expr, ExprTrait},
};

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
    for column in [Column::NextAt, Column::LeaseUntil] {
        let rows: Vec<(String, DateTime<Utc>)> = Entity::find()
            .select_only()
            .columns([Column::Id, column])
            // Spelled out, because a bound value would not match the condition of the partial index.
            .filter(Expr::cust("state = 'queued'"))
            .filter(column.gt(from).and(column.lte(until)))
            .into_tuple()
            .all(conn)
            .await?;
        moved += rows.len();
        for (id, time) in rows {
            Entity::update_many()
                .col_expr(column, Expr::value(time + by))
                .filter(Column::Id.eq(id))
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
    for column in [Column::NextAt, Column::LeaseUntil] {
        let update = Entity::update_many()
            .col_expr(column, Expr::value(now))
            .filter(Expr::cust("state = 'queued'"))
            .filter(column.gt(limit));
        ended += update.exec(conn).await?.rows_affected;
    }
    Ok(ended)
}
