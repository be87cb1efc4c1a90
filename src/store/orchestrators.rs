//! Orchestrators: partners that build on several platforms.

use super::StoreError;
use crate::domain::{ids::OrchestratorId, orchestrator::Orchestrator};
use chrono::{DateTime, Utc};
use entities::orchestrators::{ActiveModel, Column, Entity, Model};
use sea_orm::{
    ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QueryOrder,
    sea_query::{Expr, ExprTrait},
};

/// Adds an orchestrator.
pub async fn insert(
    conn: &impl ConnectionTrait,
    id: &OrchestratorId,
    name: &str,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let row = Model {
        id: id.0.clone(),
        name: name.to_owned(),
        created_at: now,
        disabled_at: None,
    };
    Entity::insert(ActiveModel::from(row))
        .exec_without_returning(conn)
        .await?;
    Ok(())
}

/// Whether an orchestrator exists.
pub async fn exists(conn: &impl ConnectionTrait, id: &OrchestratorId) -> Result<bool, StoreError> {
    let row = Entity::find_by_id(id.as_str()).one(conn).await?;
    Ok(row.is_some())
}

/// Every orchestrator, oldest first.
pub async fn list(conn: &impl ConnectionTrait) -> Result<Vec<Orchestrator>, StoreError> {
    let rows = Entity::find()
        .order_by_asc(Column::CreatedAt)
        .order_by_asc(Column::Id)
        .all(conn)
        .await?;
    let known = rows.into_iter().map(|row| Orchestrator {
        id: OrchestratorId(row.id),
        name: row.name,
        created_at: row.created_at,
        disabled_at: row.disabled_at,
    });
    Ok(known.collect())
}

/// Whether the operator disabled an orchestrator.
pub async fn is_disabled(conn: &impl ConnectionTrait, id: &OrchestratorId) -> Result<bool, StoreError> {
    let row = Entity::find_by_id(id.as_str()).one(conn).await?;
    Ok(row.is_some_and(|row| row.disabled_at.is_some()))
}

/// Disables or enables an orchestrator; returns whether it exists. An orchestrator that is already disabled keeps the
/// time from which it is disabled.
pub async fn set_disabled(
    conn: &impl ConnectionTrait,
    id: &OrchestratorId,
    disabled_at: Option<DateTime<Utc>>,
) -> Result<bool, StoreError> {
    let since = match disabled_at {
        Some(now) => Expr::col(Column::DisabledAt).if_null(now),
        None => Expr::value(disabled_at),
    };
    let changed = Entity::update_many()
        .col_expr(Column::DisabledAt, since)
        .filter(Column::Id.eq(id.as_str()))
        .exec(conn)
        .await?;
    Ok(changed.rows_affected > 0)
}
