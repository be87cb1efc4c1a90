//! Sign-in identities that own a platform: wallets and e-mail accounts.

use super::{Sealing, StoreError, Tx, sealed};
use crate::{
    domain::{
        address::Address,
        ids::{AccountId, PlatformId},
        session::PasswordAccount,
    },
    ports::sealer::EncryptionContext,
};
use chrono::{DateTime, Utc};
use entities::{accounts, wallets};
use sea_orm::{
    ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QuerySelect, QueryTrait,
    sea_query::{Expr, OnConflict},
};

/// Binds a wallet to its platform; returns whether the wallet was free. A concurrent transaction that binds the same
/// wallet waits until this transaction ends.
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

/// Encryption context of the e-mail address of an account.
fn email_place<'a>(platform: &'a str, account: &'a str) -> EncryptionContext<'a> {
    EncryptionContext {
        column: "accounts.email",
        owner: platform,
        row: account,
    }
}

/// Adds an account; returns whether its e-mail address was free.
pub async fn insert(conn: &impl Sealing, account: &PasswordAccount) -> Result<bool, StoreError> {
    let place = email_place(account.platform.as_str(), account.id.as_str());
    let row = accounts::Model {
        id: account.id.0.clone(),
        platform_id: account.platform.0.clone(),
        email: sealed::seal(conn, account.email.clone(), place)?,
        email_hash: Some(sealed::lookup(conn, &account.email)?),
        password_hash: account.password_hash.clone(),
        created_at: account.created_at,
    };
    let mut insertion = accounts::Entity::insert(accounts::ActiveModel::from(row)).into_query();
    insertion.on_conflict(OnConflict::column(accounts::Column::EmailHash).do_nothing().to_owned());
    Ok(conn.execute(&insertion).await?.rows_affected() == 1)
}

/// Finds the account of an e-mail address. The address is the part of the credential that identifies the owner.
pub async fn find_by_email(conn: &impl Sealing, email: &str) -> Result<Option<PasswordAccount>, StoreError> {
    let row = accounts::Entity::find()
        .filter(accounts::Column::EmailHash.eq(sealed::lookup(conn, email)?))
        .one(conn)
        .await?;
    row.map(|row| from_row(conn, row)).transpose()
}

/// Finds an account of a platform.
pub async fn find(
    conn: &impl Sealing,
    platform: &PlatformId,
    id: &AccountId,
) -> Result<Option<PasswordAccount>, StoreError> {
    let found = accounts::Entity::find()
        .filter(accounts::Column::PlatformId.eq(platform.as_str()))
        .filter(accounts::Column::Id.eq(id.as_str()));
    let row = found.one(conn).await?;
    row.map(|row| from_row(conn, row)).transpose()
}

fn from_row(conn: &impl Sealing, row: accounts::Model) -> Result<PasswordAccount, StoreError> {
    Ok(PasswordAccount {
        email: sealed::open(conn, &row.email, email_place(&row.platform_id, &row.id))?,
        id: AccountId(row.id),
        platform: PlatformId(row.platform_id),
        password_hash: row.password_hash,
        created_at: row.created_at,
    })
}

/// Whether an account still has the same password as `account`, an earlier read of it. Locks the account until the
/// transaction ends.
pub async fn keeps_password(tx: &Tx, account: &PasswordAccount) -> Result<bool, StoreError> {
    let found = accounts::Entity::find()
        .filter(accounts::Column::PlatformId.eq(account.platform.as_str()))
        .filter(accounts::Column::Id.eq(account.id.as_str()))
        .filter(accounts::Column::PasswordHash.eq(account.password_hash.as_str()))
        .lock_shared();
    Ok(found.one(tx).await?.is_some())
}

/// Changes the password of an account; returns whether the account still had the same password as `account`, an earlier
/// read of it.
pub async fn change_password(
    conn: &impl ConnectionTrait,
    account: &PasswordAccount,
    hash: &str,
) -> Result<bool, StoreError> {
    let changed = accounts::Entity::update_many()
        .col_expr(accounts::Column::PasswordHash, Expr::value(hash))
        .filter(accounts::Column::PlatformId.eq(account.platform.as_str()))
        .filter(accounts::Column::Id.eq(account.id.as_str()))
        .filter(accounts::Column::PasswordHash.eq(account.password_hash.as_str()));
    Ok(changed.exec(conn).await?.rows_affected == 1)
}
