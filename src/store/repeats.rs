//! Recurring requests: when their next period begins, and the requests that were created for periods.

use super::{Sealing, StoreError, columns, requests};
use crate::domain::{
    ids::{PlatformId, RequestRowId},
    request::Request,
};
use chrono::{DateTime, Utc};
use entities::requests::{ActiveModel, Column, Entity};
use sea_orm::{
    ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QuerySelect, QueryTrait, UpdateMany,
    sea_query::{
        Expr, LockBehavior, LockType, Order, OverStatement, Query, SelectStatement, UpdateStatement, WindowStatement,
    },
};

/// Number of a period, and when the period begins.
pub type Period = (u32, DateTime<Utc>);

/// Requests whose next period has begun, with their owners, in an order in which owners take turns. First comes the
/// longest due request of each public client ID, and of the other requests of each platform. Then comes the second
/// longest due request of each, and so on.
pub async fn due(
    conn: &impl ConnectionTrait,
    now: DateTime<Utc>,
    limit: u64,
) -> Result<Vec<(PlatformId, RequestRowId)>, StoreError> {
    let rows = conn.query_all(&in_turns(now, limit)).await?;
    let read = |row: sea_orm::QueryResult| {
        let platform: String = row.try_get("", "platform_id")?;
        let id: String = row.try_get("", "id")?;
        Ok((PlatformId(platform), RequestRowId(id)))
    };
    rows.into_iter().map(read).collect()
}

fn in_turns(now: DateTime<Utc>, limit: u64) -> SelectStatement {
    let in_order = WindowStatement::partition_by(Column::PlatformId)
        .add_partition_by(Expr::col(Column::PublicClient))
        .order_by(Column::NextPeriodAt, Order::Asc)
        .order_by(Column::Id, Order::Asc)
        .to_owned();
    let numbered = Query::select()
        .columns([Column::PlatformId, Column::Id, Column::NextPeriodAt])
        .expr_window_as(Expr::cust("ROW_NUMBER()"), in_order, "turn")
        .from(Entity)
        .and_where(Column::NextPeriodAt.lte(now))
        .to_owned();
    Query::select()
        .columns(["platform_id", "id"])
        .from_subquery(numbered, "numbered")
        .order_by("turn", Order::Asc)
        .order_by("next_period_at", Order::Asc)
        .order_by("id", Order::Asc)
        .limit(limit)
        .to_owned()
}

/// A request whose next period has begun, and that period, locked until the transaction ends. `None` when the period is
/// no longer due, or another transaction has locked the request.
pub async fn take_due(
    conn: &impl Sealing,
    owner: &PlatformId,
    row: &RequestRowId,
    now: DateTime<Utc>,
) -> Result<Option<(Request, u32)>, StoreError> {
    let found = Entity::find()
        .filter(Column::PlatformId.eq(owner.as_str()))
        .filter(Column::Id.eq(row.as_str()))
        .filter(Column::NextPeriodAt.lte(now))
        .lock_with_behavior(LockType::Update, LockBehavior::SkipLocked)
        .one(conn)
        .await?;
    let Some(found) = found else { return Ok(None) };
    let period = columns::number("next_period", found.next_period)?;
    Ok(Some((requests::from_row(conn, found)?, period)))
}

/// The next period of a recurring request, even if the repetition is stopped.
pub async fn next_period(conn: &impl ConnectionTrait, request: &Request) -> Result<u32, StoreError> {
    let found: Option<i32> = Entity::find()
        .select_only()
        .column(Column::NextPeriod)
        .filter(Column::PlatformId.eq(request.origin.platform.as_str()))
        .filter(Column::Id.eq(request.row.as_str()))
        .into_tuple()
        .one(conn)
        .await?;
    columns::number("next_period", found.unwrap_or_default())
}

/// Sets which period comes next; `None` when no period is left.
pub async fn plan(conn: &impl ConnectionTrait, request: &Request, next: Option<Period>) -> Result<(), StoreError> {
    conn.execute(&planned(request, next)?).await?;
    Ok(())
}

/// Stops the repetition, or resumes it with this period.
pub async fn set_stopped(
    conn: &impl ConnectionTrait,
    request: &Request,
    is_stopped: bool,
    next: Option<Period>,
) -> Result<(), StoreError> {
    let mut update = planned(request, next)?;
    update.value(Column::IsRecurrenceStopped, is_stopped);
    conn.execute(&update).await?;
    Ok(())
}

fn planned(request: &Request, next: Option<Period>) -> Result<UpdateStatement, StoreError> {
    let mut update = Query::update();
    update
        .table(Entity)
        .value(Column::NextPeriodAt, next.map(|(_, at)| at))
        .and_where(Column::PlatformId.eq(request.origin.platform.as_str()))
        .and_where(Column::Id.eq(request.row.as_str()));
    if let Some((period, _)) = next {
        let period: i32 = columns::number("next_period", period)?;
        update.value(Column::NextPeriod, period);
    }
    Ok(update)
}

/// Postpones a request whose next period could not be created, until `until`. A request that is no longer due is
/// unchanged, because another transaction has already set its time.
pub async fn put_off(
    conn: &impl ConnectionTrait,
    owner: &PlatformId,
    row: &RequestRowId,
    now: DateTime<Utc>,
    until: DateTime<Utc>,
) -> Result<(), StoreError> {
    let due = put_off_due(owner, now, until).filter(Column::Id.eq(row.as_str()));
    due.exec(conn).await?;
    Ok(())
}

/// Postpones, until `until`, all due requests that count towards the same cap as this request. These are the requests
/// of its public client ID; without one, the requests of its platform that no public client ID created. Returns how
/// many.
pub async fn put_off_alike(
    conn: &impl ConnectionTrait,
    owner: &PlatformId,
    row: &RequestRowId,
    now: DateTime<Utc>,
    until: DateTime<Utc>,
) -> Result<u64, StoreError> {
    let public_client = Entity::find()
        .select_only()
        .column(Column::PublicClient)
        .filter(Column::PlatformId.eq(owner.as_str()))
        .filter(Column::Id.eq(row.as_str()))
        .into_query();
    let due = put_off_due(owner, now, until).filter(Column::PublicClient.in_subquery(public_client));
    Ok(due.exec(conn).await?.rows_affected)
}

fn put_off_due(owner: &PlatformId, now: DateTime<Utc>, until: DateTime<Utc>) -> UpdateMany<Entity> {
    Entity::update_many()
        .col_expr(Column::NextPeriodAt, Expr::value(until))
        .filter(Column::PlatformId.eq(owner.as_str()))
        .filter(Column::NextPeriodAt.lte(now))
}

/// Adds the request of a period. A unique index on parent and period allows only one request for each period.
///
/// Errors: [`StoreError::Conflict`] with [`super::REQUEST_REFERENCE`] when the reference is taken.
pub async fn insert(conn: &impl Sealing, parent: &Request, period: u32, request: &Request) -> Result<(), StoreError> {
    let mut row = requests::to_row(conn, request)?;
    row.parent_row = Some(parent.row.0.clone());
    row.period = Some(columns::number("period", period)?);
    Entity::insert(ActiveModel::from(row))
        .exec_without_returning(conn)
        .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::plans::{steps, with_database};

    #[tokio::test]
    async fn due_requests_are_found_by_an_index() {
        with_database(async |db| {
            let plan = steps(db, &in_turns(DateTime::UNIX_EPOCH, 10)).await;
            assert!(
                plan.contains("USING INDEX requests_next_period_idx (next_period_at<?)"),
                "{plan}"
            );
        })
        .await;
    }
}
