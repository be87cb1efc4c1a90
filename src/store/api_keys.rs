//! Server-side keys. Only their hash is kept, so a copy of the database opens nothing.

use super::StoreError;
use crate::domain::ids::{ApiKeyId, PlatformId};
use chrono::{DateTime, Utc};
use entities::api_keys::{ActiveModel, Column, Entity, Model};
use sea_orm::{
    ColumnTrait, Condition, ConnectionTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect,
    sea_query::{Expr, ExprTrait},
};

/// A key as the database knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKey {
    /// Row.
    pub id: ApiKeyId,
    /// Tenant.
    pub platform: PlatformId,
    /// Hexadecimal SHA-256 of the key.
    pub hash: String,
    /// First characters of the key, for people.
    pub hint: String,
    /// Name for people.
    pub label: Option<String>,
    /// Time of creation.
    pub created_at: DateTime<Utc>,
    /// From when on it is refused; ahead of now while a rotated key still overlaps.
    pub revoked_at: Option<DateTime<Utc>>,
    /// Last authenticated use.
    pub last_used_at: Option<DateTime<Utc>>,
}

impl From<Model> for ApiKey {
    fn from(row: Model) -> Self {
        Self {
            id: ApiKeyId(row.id),
            platform: PlatformId(row.platform_id),
            hash: row.hash,
            hint: row.hint,
            label: row.label,
            created_at: row.created_at,
            revoked_at: row.revoked_at,
            last_used_at: row.last_used_at,
        }
    }
}

/// Adds a key.
pub async fn insert(conn: &impl ConnectionTrait, key: &ApiKey) -> Result<(), StoreError> {
    let row = Model {
        id: key.id.0.clone(),
        platform_id: key.platform.0.clone(),
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

fn is_good(now: DateTime<Utc>) -> Condition {
    Condition::any()
        .add(Column::RevokedAt.is_null())
        .add(Column::RevokedAt.gt(now))
}

/// Finds the key with this hash, unless it is revoked.
pub async fn find_active_by_hash(
    conn: &impl ConnectionTrait,
    hash: &str,
    now: DateTime<Utc>,
) -> Result<Option<ApiKey>, StoreError> {
    let row = Entity::find()
        .filter(Column::Hash.eq(hash))
        .filter(is_good(now))
        .one(conn)
        .await?;
    Ok(row.map(ApiKey::from))
}

/// Whether a key of a platform is still good.
pub async fn is_active(
    conn: &impl ConnectionTrait,
    platform: &PlatformId,
    id: &ApiKeyId,
    now: DateTime<Utc>,
) -> Result<bool, StoreError> {
    let row = Entity::find_by_id(id.as_str())
        .filter(Column::PlatformId.eq(platform.as_str()))
        .filter(is_good(now))
        .one(conn)
        .await?;
    Ok(row.is_some())
}

/// Keys of a platform, newest first, the revoked ones too.
pub async fn list(conn: &impl ConnectionTrait, platform: &PlatformId) -> Result<Vec<ApiKey>, StoreError> {
    let rows = Entity::find()
        .filter(Column::PlatformId.eq(platform.as_str()))
        .order_by_desc(Column::CreatedAt)
        .order_by_desc(Column::Id)
        .all(conn)
        .await?;
    Ok(rows.into_iter().map(ApiKey::from).collect())
}

/// A key of a platform that is still good, kept from others until the transaction ends.
pub async fn lock_active(
    conn: &impl ConnectionTrait,
    platform: &PlatformId,
    id: &ApiKeyId,
    now: DateTime<Utc>,
) -> Result<Option<ApiKey>, StoreError> {
    let row = Entity::find_by_id(id.as_str())
        .filter(Column::PlatformId.eq(platform.as_str()))
        .filter(is_good(now))
        .lock_exclusive()
        .one(conn)
        .await?;
    Ok(row.map(ApiKey::from))
}

/// Whether a platform has this key, good or not.
pub async fn exists(conn: &impl ConnectionTrait, platform: &PlatformId, id: &ApiKeyId) -> Result<bool, StoreError> {
    let row = Entity::find_by_id(id.as_str())
        .filter(Column::PlatformId.eq(platform.as_str()))
        .one(conn)
        .await?;
    Ok(row.is_some())
}

/// Sets from when on a key of a platform is refused; a key that ends earlier keeps its end.
pub async fn end_at(
    conn: &impl ConnectionTrait,
    platform: &PlatformId,
    id: &ApiKeyId,
    ends_at: DateTime<Utc>,
) -> Result<(), StoreError> {
    Entity::update_many()
        .col_expr(Column::RevokedAt, Expr::value(ends_at))
        .filter(Column::PlatformId.eq(platform.as_str()))
        .filter(Column::Id.eq(id.as_str()))
        .filter(is_good(ends_at))
        .exec(conn)
        .await?;
    Ok(())
}

/// Revokes a key of a platform; tells whether there was one to revoke.
pub async fn revoke(
    conn: &impl ConnectionTrait,
    platform: &PlatformId,
    id: &ApiKeyId,
    now: DateTime<Utc>,
) -> Result<bool, StoreError> {
    let result = Entity::update_many()
        .col_expr(Column::RevokedAt, Expr::value(now))
        .filter(Column::PlatformId.eq(platform.as_str()))
        .filter(Column::Id.eq(id.as_str()))
        .filter(is_good(now))
        .exec(conn)
        .await?;
    Ok(result.rows_affected == 1)
}

/// Notes a use; an older time than the noted one changes nothing.
pub async fn touch(conn: &impl ConnectionTrait, id: &ApiKeyId, now: DateTime<Utc>) -> Result<(), StoreError> {
    Entity::update_many()
        .col_expr(Column::LastUsedAt, Expr::value(now))
        .filter(Column::Id.eq(id.as_str()))
        .filter(Column::LastUsedAt.is_null().or(Column::LastUsedAt.lt(now)))
        .exec(conn)
        .await?;
    Ok(())
}
