//! Tenants.

use super::StoreError;
use crate::domain::ids::PlatformId;
use chrono::{DateTime, Utc};
use entities::platforms::{Column, Entity, Model};
use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QueryOrder};

/// A tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Platform {
    /// Row.
    pub id: PlatformId,
    /// Name for people.
    pub name: String,
    /// Time of creation.
    pub created_at: DateTime<Utc>,
}

impl From<Model> for Platform {
    fn from(row: Model) -> Self {
        Self {
            id: PlatformId(row.id),
            name: row.name,
            created_at: row.created_at,
        }
    }
}

/// Adds a tenant.
pub async fn insert(conn: &impl ConnectionTrait, platform: &Platform) -> Result<(), StoreError> {
    let row = Model {
        id: platform.id.0.clone(),
        name: platform.name.clone(),
        created_at: platform.created_at,
    };
    Entity::insert(entities::platforms::ActiveModel::from(row))
        .exec_without_returning(conn)
        .await?;
    Ok(())
}

/// All tenants, oldest first.
pub async fn list(conn: &impl ConnectionTrait) -> Result<Vec<Platform>, StoreError> {
    let rows = Entity::find()
        .order_by_asc(Column::CreatedAt)
        .order_by_asc(Column::Id)
        .all(conn)
        .await?;
    Ok(rows.into_iter().map(Platform::from).collect())
}

/// Whether a tenant exists.
pub async fn exists(conn: &impl ConnectionTrait, id: &PlatformId) -> Result<bool, StoreError> {
    Ok(Entity::find()
        .filter(Column::Id.eq(id.as_str()))
        .one(conn)
        .await?
        .is_some())
}
