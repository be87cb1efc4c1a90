//! Locks on platforms and orchestrators, so that only one transaction at a time changes the counts of an owner.

use super::StoreError;
use crate::domain::ids::OwnerId;
use entities::{orchestrators, platforms};
use sea_orm::{ConnectionTrait, EntityTrait, QuerySelect, sea_query::LockType};

/// Makes other calls of [`lock`] for the same owner wait until the transaction ends. Rows that reference the owner can
/// still be written.
pub async fn lock(conn: &impl ConnectionTrait, owner: &OwnerId) -> Result<(), StoreError> {
    let platform = platforms::Entity::find_by_id(owner.as_str()).lock(LockType::NoKeyUpdate);
    if platform.one(conn).await?.is_none() {
        let orchestrator = orchestrators::Entity::find_by_id(owner.as_str());
        orchestrator.lock(LockType::NoKeyUpdate).one(conn).await?;
    }
    Ok(())
}
