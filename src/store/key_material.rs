//! Check values of the master keys, and the lookup key. Source: ADR-0014.

use super::StoreError;
use chrono::{DateTime, Utc};
use entities::key_material::{ActiveModel, Column, Entity, Model};
use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QueryTrait, sea_query::OnConflict};

/// An encrypted value with its name, such as the check value of a master key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedKeyMaterial {
    /// Name.
    pub name: String,
    /// Its encrypted text.
    pub sealed: String,
}

/// Every stored value.
pub async fn all(conn: &impl ConnectionTrait) -> Result<Vec<NamedKeyMaterial>, StoreError> {
    let rows = Entity::find().all(conn).await?;
    let read = |row: Model| NamedKeyMaterial {
        name: row.name,
        sealed: row.sealed,
    };
    Ok(rows.into_iter().map(read).collect())
}

/// Adds a value, unless a value with its name exists.
pub async fn insert(
    conn: &impl ConnectionTrait,
    material: NamedKeyMaterial,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let row = Model {
        name: material.name,
        sealed: material.sealed,
        created_at: now,
    };
    let mut insertion = Entity::insert(ActiveModel::from(row)).into_query();
    insertion.on_conflict(OnConflict::column(Column::Name).do_nothing().to_owned());
    conn.execute(&insertion).await?;
    Ok(())
}

/// Removes a value.
pub async fn remove(conn: &impl ConnectionTrait, name: &str) -> Result<(), StoreError> {
    Entity::delete_many().filter(Column::Name.eq(name)).exec(conn).await?;
    Ok(())
}
