//! Server-side keys of platforms and of orchestrators. Only their hash is stored, so a copy of the database gives no
//! access.

use super::{REVOKED_LISTED_MAX, StoreError, columns};
use crate::domain::ids::{KeyId, OrchestratorId, Owner, PlatformId};
use chrono::{DateTime, Utc};
use entities::keys::{ActiveModel, Column, Entity, Model};
use sea_orm::{
    ColumnTrait, Condition, ConnectionTrait, EntityTrait, PaginatorTrait, QueryFilter, QueryOrder, QuerySelect, Select,
    sea_query::{Expr, ExprTrait},
};

/// A key as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredApiKey {
    /// Row.
    pub id: KeyId,
    /// Its owner.
    pub owner: Owner,
    /// Hexadecimal SHA-256 of the key.
    pub hash: String,
    /// First characters of the key, by which people recognise it.
    pub hint: String,
    /// Name for people.
    pub label: Option<String>,
    /// Time of creation.
    pub created_at: DateTime<Utc>,
    /// Time from which the key is rejected; in the future while a rotated key still overlaps.
    pub revoked_at: Option<DateTime<Utc>>,
    /// Last authenticated use.
    pub last_used_at: Option<DateTime<Utc>>,
}

const PLATFORM: &str = "platform";
const ORCHESTRATOR: &str = "orchestrator";

impl TryFrom<Model> for StoredApiKey {
    type Error = StoreError;

    fn try_from(row: Model) -> Result<Self, StoreError> {
        let owner = match row.owner_kind.as_str() {
            PLATFORM => Owner::Platform(PlatformId(row.owner_id)),
            ORCHESTRATOR => Owner::Orchestrator(OrchestratorId(row.owner_id)),
            other => return Err(columns::broken("owner_kind", other)),
        };
        Ok(Self {
            id: KeyId(row.id),
            owner,
            hash: row.hash,
            hint: row.hint,
            label: row.label,
            created_at: row.created_at,
            revoked_at: row.revoked_at,
            last_used_at: row.last_used_at,
        })
    }
}

/// Adds a key.
pub async fn insert(conn: &impl ConnectionTrait, key: &StoredApiKey) -> Result<(), StoreError> {
    let kind = match key.owner {
        Owner::Platform(_) => PLATFORM,
        Owner::Orchestrator(_) => ORCHESTRATOR,
    };
    let row = Model {
        id: key.id.0.clone(),
        owner_kind: kind.to_owned(),
        owner_id: key.owner.as_str().to_owned(),
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

fn of(owner: &Owner, id: &KeyId) -> Condition {
    Condition::all()
        .add(Column::OwnerId.eq(owner.as_str()))
        .add(Column::Id.eq(id.as_str()))
}

async fn one(conn: &impl ConnectionTrait, found: Select<Entity>) -> Result<Option<StoredApiKey>, StoreError> {
    found.one(conn).await?.map(StoredApiKey::try_from).transpose()
}

/// Finds the key with this hash, unless it is revoked.
pub async fn find_active_by_hash(
    conn: &impl ConnectionTrait,
    hash: &str,
    now: DateTime<Utc>,
) -> Result<Option<StoredApiKey>, StoreError> {
    one(conn, Entity::find().filter(Column::Hash.eq(hash)).filter(is_good(now))).await
}

/// Whether a key is still valid.
pub async fn is_active(
    conn: &impl ConnectionTrait,
    owner: &Owner,
    id: &KeyId,
    now: DateTime<Utc>,
) -> Result<bool, StoreError> {
    let found = Entity::find().filter(of(owner, id)).filter(is_good(now));
    Ok(one(conn, found).await?.is_some())
}

/// A key that is still valid, locked until the transaction ends.
pub async fn lock_active(
    conn: &impl ConnectionTrait,
    owner: &Owner,
    id: &KeyId,
    now: DateTime<Utc>,
) -> Result<Option<StoredApiKey>, StoreError> {
    let found = Entity::find().filter(of(owner, id)).filter(is_good(now));
    one(conn, found.lock_exclusive()).await
}

/// Keys of an owner, newest first: all valid ones, and the last [`REVOKED_LISTED_MAX`] revoked ones.
pub async fn list(
    conn: &impl ConnectionTrait,
    owner: &Owner,
    now: DateTime<Utc>,
) -> Result<Vec<StoredApiKey>, StoreError> {
    let newest = Entity::find()
        .filter(Column::OwnerId.eq(owner.as_str()))
        .order_by_desc(Column::CreatedAt)
        .order_by_desc(Column::Id);
    let revoked = newest
        .clone()
        .filter(is_good(now).not())
        .limit(REVOKED_LISTED_MAX)
        .all(conn);
    let mut rows = revoked.await?;
    rows.extend(newest.filter(is_good(now)).all(conn).await?);
    rows.sort_unstable_by(|one, other| (other.created_at, &other.id).cmp(&(one.created_at, &one.id)));
    rows.into_iter().map(StoredApiKey::try_from).collect()
}

/// How many valid keys an owner has.
pub async fn count_good(conn: &impl ConnectionTrait, owner: &Owner, now: DateTime<Utc>) -> Result<u64, StoreError> {
    let good = Entity::find()
        .filter(Column::OwnerId.eq(owner.as_str()))
        .filter(is_good(now));
    Ok(good.count(conn).await?)
}

/// Whether the owner has this key, valid or not.
pub async fn exists(conn: &impl ConnectionTrait, owner: &Owner, id: &KeyId) -> Result<bool, StoreError> {
    Ok(one(conn, Entity::find().filter(of(owner, id))).await?.is_some())
}

/// Sets the time from which a key is rejected. Returns whether this changed the key: a key that is rejected from an
/// earlier time on keeps this earlier time.
pub async fn end_at(
    conn: &impl ConnectionTrait,
    owner: &Owner,
    id: &KeyId,
    ends_at: DateTime<Utc>,
) -> Result<bool, StoreError> {
    let result = Entity::update_many()
        .col_expr(Column::RevokedAt, Expr::value(ends_at))
        .filter(of(owner, id))
        .filter(is_good(ends_at))
        .exec(conn)
        .await?;
    Ok(result.rows_affected == 1)
}

/// Records a use of a key; a time before the recorded one changes nothing.
pub async fn touch(conn: &impl ConnectionTrait, id: &KeyId, now: DateTime<Utc>) -> Result<(), StoreError> {
    Entity::update_many()
        .col_expr(Column::LastUsedAt, Expr::value(now))
        .filter(Column::Id.eq(id.as_str()))
        .filter(Column::LastUsedAt.is_null().or(Column::LastUsedAt.lt(now)))
        .exec(conn)
        .await?;
    Ok(())
}
