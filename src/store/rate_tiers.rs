//! Rate limit tiers that the operator set for a platform or client ID instead of the default tier.

use super::{StoreError, columns};
use crate::domain::{
    ids::{ClientRowId, PlatformId},
    quota::Tier,
};
use entities::rate_tiers::{ActiveModel, Column, Entity, Model};
use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, sea_query::OnConflict};

/// Sets the tier of a platform, or of one of its client IDs.
pub async fn set(
    conn: &impl ConnectionTrait,
    platform: &PlatformId,
    client: Option<&ClientRowId>,
    tier: Tier,
) -> Result<(), StoreError> {
    let row = Model {
        subject: client.map_or(platform.as_str(), ClientRowId::as_str).to_owned(),
        tier: tier.wire().to_owned(),
    };
    let conflict = OnConflict::column(Column::Subject)
        .update_column(Column::Tier)
        .to_owned();
    Entity::insert(ActiveModel::from(row))
        .on_conflict(conflict)
        .exec_without_returning(conn)
        .await?;
    Ok(())
}

/// The tier of a client ID, else that of its platform.
pub async fn find(
    conn: &impl ConnectionTrait,
    platform: &PlatformId,
    client: Option<&ClientRowId>,
) -> Result<Option<Tier>, StoreError> {
    let subjects = client.map(ClientRowId::as_str).into_iter().chain([platform.as_str()]);
    let subjects: Vec<&str> = subjects.collect();
    let rows = Entity::find()
        .filter(Column::Subject.is_in(subjects.clone()))
        .all(conn)
        .await?;
    let nearest = subjects
        .iter()
        .find_map(|subject| rows.iter().find(|row| row.subject == *subject));
    nearest
        .map(|row| columns::known("tier", &row.tier, |text| text.parse().ok()))
        .transpose()
}
