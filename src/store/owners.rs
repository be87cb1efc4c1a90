//! Owners, whichever kind they are: what is counted for one of them is changed by one transaction at a time.

use super::StoreError;
use crate::domain::ids::OwnerId;
use entities::{orchestrators, platforms};
use sea_orm::{ConnectionTrait, EntityTrait, QuerySelect, sea_query::LockType};

/// Keeps others from [`lock`]ing the same owner until the transaction ends. Rows that name the owner are written
/// meanwhile.
pub async fn lock(conn: &impl ConnectionTrait, owner: &OwnerId) -> Result<(), StoreError> {
    let platform = platforms::Entity::find_by_id(owner.as_str()).lock(LockType::NoKeyUpdate);
    if platform.one(conn).await?.is_none() {
        let orchestrator = orchestrators::Entity::find_by_id(owner.as_str());
        orchestrator.lock(LockType::NoKeyUpdate).one(conn).await?;
    }
    Ok(())
}
