//! Orchestrators and their keys. Only the hash of a key is kept, so a copy of the database opens nothing.

use super::StoreError;
use crate::domain::ids::{OrchestratorId, OrchestratorKeyId};
use chrono::{DateTime, Utc};
use entities::{
    orchestrator_keys::{ActiveModel, Column, Entity, Model},
    orchestrators,
};
use sea_orm::{
    ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter,
    sea_query::{Expr, ExprTrait},
};

/// A key as the database knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrchestratorKey {
    /// Row.
    pub id: OrchestratorKeyId,
    /// Orchestrator.
    pub orchestrator: OrchestratorId,
    /// Hexadecimal SHA-256 of the key.
    pub hash: String,
    /// First characters of the key, for people.
    pub hint: String,
    /// Name for people.
    pub label: Option<String>,
    /// Time of creation.
    pub created_at: DateTime<Utc>,
    /// Time of revocation.
    pub revoked_at: Option<DateTime<Utc>>,
    /// Last authenticated use.
    pub last_used_at: Option<DateTime<Utc>>,
}

/// Adds an orchestrator.
pub async fn insert(
    conn: &impl ConnectionTrait,
    id: &OrchestratorId,
    name: &str,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let row = orchestrators::Model {
        id: id.0.clone(),
        name: name.to_owned(),
        created_at: now,
    };
    orchestrators::Entity::insert(orchestrators::ActiveModel::from(row))
        .exec_without_returning(conn)
        .await?;
    Ok(())
}

/// Whether there is such an orchestrator.
pub async fn exists(conn: &impl ConnectionTrait, id: &OrchestratorId) -> Result<bool, StoreError> {
    let row = orchestrators::Entity::find_by_id(id.as_str()).one(conn).await?;
    Ok(row.is_some())
}

/// Adds a key.
pub async fn insert_key(conn: &impl ConnectionTrait, key: &OrchestratorKey) -> Result<(), StoreError> {
    let row = Model {
        id: key.id.0.clone(),
        orchestrator_id: key.orchestrator.0.clone(),
        hash: key.hash.clone(),
        hint: key.hint.clone(),
        label: key.label.clone(),
        created_at: key.created_at,
        revoked_at: key.revoked_at,
        last_used_at: key.last_used_at,
    };
    Entity::insert(ActiveModel::from(row))
        .exec_without_returning(conn)
        .await?;
    Ok(())
}

/// Finds the key with this hash, unless it is revoked: its row, its orchestrator and its last use.
pub async fn find_active_key(
    conn: &impl ConnectionTrait,
    hash: &str,
) -> Result<Option<(OrchestratorKeyId, OrchestratorId, Option<DateTime<Utc>>)>, StoreError> {
    let row = Entity::find()
        .filter(Column::Hash.eq(hash))
        .filter(Column::RevokedAt.is_null())
        .one(conn)
        .await?;
    Ok(row.map(|row| {
        (
            OrchestratorKeyId(row.id),
            OrchestratorId(row.orchestrator_id),
            row.last_used_at,
        )
    }))
}

/// Revokes a key of an orchestrator; tells whether there was one to revoke.
pub async fn revoke_key(
    conn: &impl ConnectionTrait,
    orchestrator: &OrchestratorId,
    id: &OrchestratorKeyId,
    now: DateTime<Utc>,
) -> Result<bool, StoreError> {
    let result = Entity::update_many()
        .col_expr(Column::RevokedAt, Expr::value(now))
        .filter(Column::OrchestratorId.eq(orchestrator.as_str()))
        .filter(Column::Id.eq(id.as_str()))
        .filter(Column::RevokedAt.is_null())
        .exec(conn)
        .await?;
    Ok(result.rows_affected == 1)
}

/// Notes a use; an older time than the noted one changes nothing.
pub async fn touch_key(
    conn: &impl ConnectionTrait,
    id: &OrchestratorKeyId,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    Entity::update_many()
        .col_expr(Column::LastUsedAt, Expr::value(now))
        .filter(Column::Id.eq(id.as_str()))
        .filter(Column::LastUsedAt.is_null().or(Column::LastUsedAt.lt(now)))
        .exec(conn)
        .await?;
    Ok(())
}
