//! Devices from which people have signed in.

use super::{StoreError, columns};
use crate::domain::{guesses::Device, ids::AccountId};
use chrono::{DateTime, Utc};
use entities::known_devices::{ActiveModel, Column, Entity, Model};
use sea_orm::{
    ColumnTrait, Condition, ConnectionTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect, sea_query::OnConflict,
};

/// Finds those of the given devices of an account that signed in after a time, by their hashes and in no order.
pub async fn find(
    conn: &impl ConnectionTrait,
    account: &AccountId,
    hashes: &[String],
    since: DateTime<Utc>,
) -> Result<Vec<Device>, StoreError> {
    let rows = Entity::find()
        .filter(Column::AccountId.eq(account.as_str()))
        .filter(Column::Hash.is_in(hashes))
        .filter(Column::LastUsedAt.gt(since))
        .all(conn)
        .await?;
    let devices = rows.into_iter().map(|row| Device {
        hash: row.hash,
        account: AccountId(row.account_id),
        last_used_at: row.last_used_at,
    });
    Ok(devices.collect())
}

/// Records a sign-in.
pub async fn note(conn: &impl ConnectionTrait, device: &Device) -> Result<(), StoreError> {
    let row = Model {
        hash: device.hash.clone(),
        account_id: device.account.0.clone(),
        last_used_at: device.last_used_at,
    };
    let again = OnConflict::column(Column::Hash)
        .update_column(Column::LastUsedAt)
        .to_owned();
    Entity::insert(ActiveModel::from(row))
        .on_conflict(again)
        .exec_without_returning(conn)
        .await?;
    Ok(())
}

/// Deletes the devices of an account beyond the `keep` most recent sign-ins.
pub async fn trim(conn: &impl ConnectionTrait, account: &AccountId, keep: u64) -> Result<(), StoreError> {
    let hashes: Vec<String> = Entity::find()
        .select_only()
        .column(Column::Hash)
        .filter(Column::AccountId.eq(account.as_str()))
        .order_by_desc(Column::LastUsedAt)
        .order_by_asc(Column::Hash)
        .offset(keep)
        .limit(keep)
        .into_tuple()
        .all(conn)
        .await?;
    if !hashes.is_empty() {
        Entity::delete_many()
            .filter(Column::AccountId.eq(account.as_str()))
            .filter(Column::Hash.is_in(hashes))
            .exec(conn)
            .await?;
    }
    Ok(())
}

/// Deletes the devices that have not signed in since a time, at most `limit`; returns how many.
pub async fn forget(conn: &impl ConnectionTrait, until: DateTime<Utc>, limit: u64) -> Result<u64, StoreError> {
    // A device that signed in in the meantime is known again.
    let over = Condition::all().add(Column::LastUsedAt.lte(until));
    columns::delete_oldest::<Entity>(conn, Column::Hash, Column::LastUsedAt, over, limit).await
}
