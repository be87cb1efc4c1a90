//! What the database keeps to check master keys with, and the key of look-ups. Source: ADR-0014.

use super::StoreError;
use chrono::{DateTime, Utc};
use entities::key_material::{ActiveModel, Column, Entity, Model};
use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QueryTrait, sea_query::OnConflict};

/// A named value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Material {
    /// What it is.
    pub name: String,
    /// Its sealed text.
    pub sealed: String,
}

/// Everything that is kept.
pub async fn all(conn: &impl ConnectionTrait) -> Result<Vec<Material>, StoreError> {
    let rows = Entity::find().all(conn).await?;
    let read = |row: Model| Material {
        name: row.name,
        sealed: row.sealed,
    };
    Ok(rows.into_iter().map(read).collect())
}

/// Adds a value, unless there is one of its name.
pub async fn insert(conn: &impl ConnectionTrait, material: Material, now: DateTime<Utc>) -> Result<(), StoreError> {
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
