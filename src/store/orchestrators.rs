//! Orchestrators: partners that build on several platforms.

use super::StoreError;
use crate::domain::ids::OrchestratorId;
use chrono::{DateTime, Utc};
use entities::orchestrators::{ActiveModel, Entity, Model};
use sea_orm::{ConnectionTrait, EntityTrait};

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
    };
    Entity::insert(ActiveModel::from(row))
        .exec_without_returning(conn)
        .await?;
    Ok(())
}

/// Whether there is such an orchestrator.
pub async fn exists(conn: &impl ConnectionTrait, id: &OrchestratorId) -> Result<bool, StoreError> {
    let row = Entity::find_by_id(id.as_str()).one(conn).await?;
    Ok(row.is_some())
}
