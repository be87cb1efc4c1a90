//! Who owns a platform by signing in: wallets and e-mail accounts.

use super::{Sealing, StoreError, sealed};
use crate::{
    domain::{
        address::Address,
        ids::{AccountId, PlatformId},
        session::Account,
    },
    ports::sealer::Place,
};
use chrono::{DateTime, Utc};
use entities::{accounts, platforms, wallets};
use sea_orm::{
    ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect, QueryTrait,
    sea_query::{Expr, OnConflict},
};

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

/// Where the e-mail address of an account stands.
fn email_place<'a>(platform: &'a str, account: &'a str) -> Place<'a> {
    Place {
        column: "accounts.email",
        owner: platform,
        row: account,
    }
}

/// Adds an account; tells whether its e-mail address was free.
pub async fn insert(conn: &impl Sealing, account: &Account) -> Result<bool, StoreError> {
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

/// Finds the account of an e-mail address. The address is a part of the credential that names the owner.
pub async fn find_by_email(conn: &impl Sealing, email: &str) -> Result<Option<Account>, StoreError> {
    let row = accounts::Entity::find()
        .filter(accounts::Column::EmailHash.eq(sealed::lookup(conn, email)?))
        .one(conn)
        .await?;
    let read = |row: accounts::Model| {
        Ok(Account {
            email: sealed::open(conn, row.email, email_place(&row.platform_id, &row.id))?,
            id: AccountId(row.id),
            platform: PlatformId(row.platform_id),
            password_hash: row.password_hash,
            created_at: row.created_at,
        })
    };
    row.map(read).transpose()
}

/// Seals the addresses of accounts that were opened before addresses were sealed, at most `limit`; returns how many.
/// Their platforms were named after them and get the name that those of accounts have now. Needs a transaction.
pub async fn seal_clear(conn: &impl Sealing, limit: u64) -> Result<u64, StoreError> {
    let rows = accounts::Entity::find()
        .filter(accounts::Column::EmailHash.is_null())
        .order_by_asc(accounts::Column::Id)
        .limit(limit)
        .all(conn)
        .await?;
    let mut count = 0;
    for row in rows {
        let place = email_place(&row.platform_id, &row.id);
        accounts::Entity::update_many()
            .col_expr(
                accounts::Column::EmailHash,
                Expr::value(sealed::lookup(conn, &row.email)?),
            )
            .col_expr(
                accounts::Column::Email,
                Expr::value(sealed::seal(conn, row.email, place)?),
            )
            .filter(accounts::Column::Id.eq(row.id.as_str()))
            .exec(conn)
            .await?;
        platforms::Entity::update_many()
            .col_expr(platforms::Column::Name, Expr::value(AccountId(row.id).platform_name()))
            .filter(platforms::Column::Id.eq(row.platform_id))
            .exec(conn)
            .await?;
        count += 1;
    }
    Ok(count)
}
