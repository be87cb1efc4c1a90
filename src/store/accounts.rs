//! Who owns a platform by signing in: wallets and e-mail accounts.

use super::StoreError;
use crate::domain::{
    address::Address,
    ids::{AccountId, PlatformId},
    session::Account,
};
use chrono::{DateTime, Utc};
use entities::{accounts, wallets};
use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QueryTrait, sea_query::OnConflict};

/// Binds a wallet to its platform; tells whether it was free. Inside a transaction a rival waits until that ends.
pub async fn bind_wallet(
    conn: &impl ConnectionTrait,
    wallet: &Address,
    platform: &PlatformId,
    now: DateTime<Utc>,
) -> Result<bool, StoreError> {
    let row = wallets::Model {
        address: wallet.canonical(),
        platform_id: platform.0.clone(),
        created_at: now,
    };
    let mut insertion = wallets::Entity::insert(wallets::ActiveModel::from(row)).into_query();
    insertion.on_conflict(OnConflict::column(wallets::Column::Address).do_nothing().to_owned());
    Ok(conn.execute(&insertion).await?.rows_affected() == 1)
}

/// The platform of a wallet.
pub async fn platform_of_wallet(
    conn: &impl ConnectionTrait,
    wallet: &Address,
) -> Result<Option<PlatformId>, StoreError> {
    let row = wallets::Entity::find_by_id(wallet.canonical()).one(conn).await?;
    Ok(row.map(|row| PlatformId(row.platform_id)))
}

/// Adds an account; tells whether its e-mail address was free.
pub async fn insert(conn: &impl ConnectionTrait, account: &Account) -> Result<bool, StoreError> {
    let row = accounts::Model {
        id: account.id.0.clone(),
        platform_id: account.platform.0.clone(),
        email: account.email.clone(),
        password_hash: account.password_hash.clone(),
        created_at: account.created_at,
    };
    let mut insertion = accounts::Entity::insert(accounts::ActiveModel::from(row)).into_query();
    insertion.on_conflict(OnConflict::column(accounts::Column::Email).do_nothing().to_owned());
    Ok(conn.execute(&insertion).await?.rows_affected() == 1)
}

/// Finds the account of an e-mail address. The address is a part of the credential that names the owner.
pub async fn find_by_email(conn: &impl ConnectionTrait, email: &str) -> Result<Option<Account>, StoreError> {
    let row = accounts::Entity::find()
        .filter(accounts::Column::Email.eq(email))
        .one(conn)
        .await?;
    Ok(row.map(|row| Account {
        id: AccountId(row.id),
        platform: PlatformId(row.platform_id),
        email: row.email,
        password_hash: row.password_hash,
        created_at: row.created_at,
    }))
}
