//! Responses of operations that were called with an idempotency key, stored together with their effect.

use super::StoreError;
use crate::domain::ids::OwnerId;
use chrono::{DateTime, Utc};
use entities::idempotency_keys::{ActiveModel, Column, Entity, Model};
use sea_orm::{
    ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QuerySelect, QueryTrait,
    sea_query::{Expr, ExprTrait},
};

/// An idempotency key, with the owner, credential and operation for which it is unique.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct IdempotencyKey {
    /// Platform or orchestrator.
    pub owner: OwnerId,
    /// Credential and operation.
    pub scope: String,
    /// Key of the caller.
    pub key: String,
}

/// A key that has been used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsedKey {
    /// Hash of the body with which the key was used.
    pub body_hash: String,
    /// Body of the response.
    pub response: String,
    /// Time of the first call.
    pub created_at: DateTime<Utc>,
}

fn to_row(key: &IdempotencyKey, body_hash: &str, response: &str, now: DateTime<Utc>) -> ActiveModel {
    ActiveModel::from(Model {
        owner_id: key.owner.0.clone(),
        scope: key.scope.clone(),
        key: key.key.clone(),
        body_hash: body_hash.to_owned(),
        response: response.to_owned(),
        created_at: now,
    })
}

fn named(key: &IdempotencyKey) -> sea_orm::Condition {
    sea_orm::Condition::all()
        .add(Column::OwnerId.eq(key.owner.as_str()))
        .add(Column::Scope.eq(key.scope.as_str()))
        .add(Column::Key.eq(key.key.as_str()))
}

/// Finds a key that has been used.
pub async fn find(conn: &impl ConnectionTrait, key: &IdempotencyKey) -> Result<Option<UsedKey>, StoreError> {
    let found = Entity::find().filter(named(key)).one(conn).await?;
    Ok(found.map(|row| UsedKey {
        body_hash: row.body_hash,
        response: row.response,
        created_at: row.created_at,
    }))
}

/// Stores a key as used, with its response, in the transaction that contains the effect of the call.
///
/// Errors: [`StoreError::Conflict`] with [`super::IDEMPOTENCY_KEY`] when the key is taken.
pub async fn insert(
    conn: &impl ConnectionTrait,
    key: &IdempotencyKey,
    body_hash: &str,
    response: &str,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    Entity::insert(to_row(key, body_hash, response, now))
        .exec_without_returning(conn)
        .await?;
    Ok(())
}

/// Frees a key that was used before a time. Concurrent calls may free the same key.
pub async fn free(conn: &impl ConnectionTrait, key: &IdempotencyKey, before: DateTime<Utc>) -> Result<(), StoreError> {
    Entity::delete_many()
        .filter(named(key))
        .filter(Column::CreatedAt.lt(before))
        .exec(conn)
        .await?;
    Ok(())
}

/// Deletes keys that were used before a time, at most `limit`; returns how many.
pub async fn forget(conn: &impl ConnectionTrait, before: DateTime<Utc>, limit: u64) -> Result<u64, StoreError> {
    let keys = [Column::OwnerId, Column::Scope, Column::Key];
    let batch = Entity::find()
        .select_only()
        .columns(keys)
        .filter(Column::CreatedAt.lt(before))
        .limit(limit)
        .into_query();
    // A key that was freed and used again in the meantime has a newer time, so the condition excludes it.
    let result = Entity::delete_many()
        .filter(Expr::tuple(keys.map(Expr::col)).in_subquery(batch))
        .filter(Column::CreatedAt.lt(before))
        .exec(conn)
        .await?;
    Ok(result.rows_affected)
}
