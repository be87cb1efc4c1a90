//! Answers of operations that were called with an idempotency key, kept together with their effect.

use super::{StoreError, columns};
use crate::domain::ids::OwnerId;
use chrono::{DateTime, Utc};
use entities::idempotency_keys::{ActiveModel, Column, Entity, Model};
use sea_orm::{
    ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QuerySelect, QueryTrait,
    sea_query::{Expr, ExprTrait, OnConflict},
};

/// A key within its owner and operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyKey {
    /// Platform or orchestrator.
    pub owner: OwnerId,
    /// Credential and operation.
    pub scope: String,
    /// Key of the caller.
    pub key: String,
}

/// What the operation answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredAnswer {
    /// Status.
    pub status: u16,
    /// Body.
    pub response: String,
}

/// A key that has been used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsedKey {
    /// Hash of the body that it was used with.
    pub body_hash: String,
    /// The answer; `None` while the first call is in flight.
    pub answer: Option<StoredAnswer>,
    /// Time of the first call.
    pub created_at: DateTime<Utc>,
}

fn to_row(key: &IdempotencyKey, body_hash: &str, answer: Option<&StoredAnswer>, now: DateTime<Utc>) -> ActiveModel {
    ActiveModel::from(Model {
        owner_id: key.owner.0.clone(),
        scope: key.scope.clone(),
        key: key.key.clone(),
        body_hash: body_hash.to_owned(),
        status: answer.map(|answer| i32::from(answer.status)),
        response: answer.map(|answer| answer.response.clone()),
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
    let Some(row) = Entity::find().filter(named(key)).one(conn).await? else {
        return Ok(None);
    };
    let answer = match (row.status, row.response) {
        (Some(status), Some(response)) => Some(StoredAnswer {
            status: columns::number("status", status)?,
            response,
        }),
        (None, None) => None,
        _ => return Err(columns::broken("status", "only a part of an answer")),
    };
    Ok(Some(UsedKey {
        body_hash: row.body_hash,
        answer,
        created_at: row.created_at,
    }))
}

/// Takes a key for an operation that is about to run; tells whether it was free.
///
/// Inside the transaction of the effect a rival waits until that ends, then finds the key taken.
pub async fn begin(
    conn: &impl ConnectionTrait,
    key: &IdempotencyKey,
    body_hash: &str,
    now: DateTime<Utc>,
) -> Result<bool, StoreError> {
    let mut insertion = Entity::insert(to_row(key, body_hash, None, now)).into_query();
    insertion.on_conflict(
        OnConflict::columns([Column::OwnerId, Column::Scope, Column::Key])
            .do_nothing()
            .to_owned(),
    );
    Ok(conn.execute(&insertion).await?.rows_affected() == 1)
}

/// Writes the answer of an operation whose key was taken with [`begin`]; tells whether it was still in flight.
pub async fn complete(
    conn: &impl ConnectionTrait,
    key: &IdempotencyKey,
    answer: &StoredAnswer,
) -> Result<bool, StoreError> {
    let result = Entity::update_many()
        .col_expr(Column::Status, Expr::value(i32::from(answer.status)))
        .col_expr(Column::Response, Expr::value(answer.response.clone()))
        .filter(named(key))
        .filter(Column::Status.is_null())
        .exec(conn)
        .await?;
    Ok(result.rows_affected == 1)
}

/// Takes a key and writes its answer with one statement, in the transaction of the effect.
///
/// Errors: [`StoreError::Conflict`] with [`super::IDEMPOTENCY_KEY`] when the key is taken.
pub async fn insert(
    conn: &impl ConnectionTrait,
    key: &IdempotencyKey,
    body_hash: &str,
    answer: &StoredAnswer,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    Entity::insert(to_row(key, body_hash, Some(answer), now))
        .exec_without_returning(conn)
        .await?;
    Ok(())
}

/// Frees a key that was used before a time, whoever else frees it too.
pub async fn free(conn: &impl ConnectionTrait, key: &IdempotencyKey, before: DateTime<Utc>) -> Result<(), StoreError> {
    Entity::delete_many()
        .filter(named(key))
        .filter(Column::CreatedAt.lt(before))
        .exec(conn)
        .await?;
    Ok(())
}

/// Forgets keys that were used before a time, at most `limit`; returns how many.
pub async fn forget(conn: &impl ConnectionTrait, before: DateTime<Utc>, limit: u64) -> Result<u64, StoreError> {
    let keys = [Column::OwnerId, Column::Scope, Column::Key];
    let batch = Entity::find()
        .select_only()
        .columns(keys)
        .filter(Column::CreatedAt.lt(before))
        .limit(limit)
        .into_query();
    // A key that was freed and taken again in the meantime is not old any more.
    let result = Entity::delete_many()
        .filter(Expr::tuple(keys.map(Expr::col)).in_subquery(batch))
        .filter(Column::CreatedAt.lt(before))
        .exec(conn)
        .await?;
    Ok(result.rows_affected)
}
