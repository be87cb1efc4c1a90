//! Sign-in messages for wallets to sign.

use super::{StoreError, columns};
use crate::domain::{ids::ChallengeId, session::Challenge};
use chrono::{DateTime, Utc};
use entities::wallet_challenges::{ActiveModel, Column, Entity, Model};
use sea_orm::{
    ColumnTrait, Condition, ConnectionTrait, EntityTrait, QueryFilter,
    sea_query::{Expr, ExprTrait},
};

/// Stores a challenge.
pub async fn insert(conn: &impl ConnectionTrait, challenge: &Challenge) -> Result<(), StoreError> {
    let row = Model {
        id: challenge.id.0.clone(),
        address: challenge.address.canonical(),
        nonce: challenge.nonce.clone(),
        message: challenge.message.clone(),
        created_at: challenge.created_at,
        expires_at: challenge.expires_at,
        used_at: challenge.used_at,
        checks: 0,
    };
    Entity::insert(ActiveModel::from(row))
        .exec_without_returning(conn)
        .await?;
    Ok(())
}

/// Finds a challenge, whatever its state. A challenge has no owner before the sign-in; its id is the credential.
pub async fn find(conn: &impl ConnectionTrait, id: &ChallengeId) -> Result<Option<Challenge>, StoreError> {
    let Some(row) = Entity::find_by_id(id.as_str()).one(conn).await? else {
        return Ok(None);
    };
    Ok(Some(Challenge {
        id: ChallengeId(row.id),
        address: columns::address("address", &row.address)?,
        nonce: row.nonce,
        message: row.message,
        created_at: row.created_at,
        expires_at: row.expires_at,
        used_at: row.used_at,
    }))
}

/// Uses up a challenge; returns whether the challenge was still valid. Of any number of concurrent calls, exactly one
/// gets true.
pub async fn take(conn: &impl ConnectionTrait, id: &ChallengeId, now: DateTime<Utc>) -> Result<bool, StoreError> {
    let result = Entity::update_many()
        .col_expr(Column::UsedAt, Expr::value(now))
        .filter(Column::Id.eq(id.as_str()))
        .filter(Column::UsedAt.is_null())
        .filter(Column::ExpiresAt.gt(now))
        .exec(conn)
        .await?;
    Ok(result.rows_affected == 1)
}

/// Counts a signature check at a contract wallet; returns whether the check is allowed. `checks_max` checks are
/// allowed.
pub async fn count_check(conn: &impl ConnectionTrait, id: &ChallengeId, checks_max: i32) -> Result<bool, StoreError> {
    let result = Entity::update_many()
        .col_expr(Column::Checks, Expr::col(Column::Checks).add(1))
        .filter(Column::Id.eq(id.as_str()))
        .filter(Column::Checks.lt(checks_max))
        .exec(conn)
        .await?;
    Ok(result.rows_affected == 1)
}

/// Deletes expired challenges, at most `limit`; returns how many.
pub async fn forget(conn: &impl ConnectionTrait, now: DateTime<Utc>, limit: u64) -> Result<u64, StoreError> {
    let over = Condition::all().add(Column::ExpiresAt.lte(now));
    columns::delete_oldest::<Entity>(conn, Column::Id, Column::ExpiresAt, over, limit).await
}
