//! Sessions of people who are signed in. Only the hash of a token is stored, so a copy of the database gives no access.

use super::{StoreError, columns};
use crate::domain::{
    caller::SignedInPerson,
    ids::{AccountId, PlatformId, SessionId},
    session::SignInSession,
};
use chrono::{DateTime, Utc};
use entities::sessions::{ActiveModel, Column, Entity, Model};
use sea_orm::{
    ColumnTrait, Condition, ConnectionTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect, sea_query::Expr,
};

fn from_row(row: Model) -> Result<SignInSession, StoreError> {
    let person = match (row.wallet, row.account_id) {
        (Some(wallet), None) => SignedInPerson::Wallet(columns::address("wallet", &wallet)?),
        (None, Some(account)) => SignedInPerson::Account(AccountId(account)),
        _ => {
            return Err(columns::broken(
                "wallet",
                "wallet and account are both set or both missing",
            ));
        }
    };
    Ok(SignInSession {
        id: SessionId(row.id),
        token_hash: row.token_hash,
        platform: PlatformId(row.platform_id),
        person,
        created_at: row.created_at,
        last_used_at: row.last_used_at,
        expires_at: row.expires_at,
    })
}

/// Adds a session.
pub async fn insert(conn: &impl ConnectionTrait, session: &SignInSession) -> Result<(), StoreError> {
    let (wallet, account_id) = match &session.person {
        SignedInPerson::Wallet(wallet) => (Some(wallet.canonical()), None),
        SignedInPerson::Account(account) => (None, Some(account.0.clone())),
    };
    let row = Model {
        id: session.id.0.clone(),
        token_hash: session.token_hash.clone(),
        platform_id: session.platform.0.clone(),
        wallet,
        account_id,
        created_at: session.created_at,
        last_used_at: session.last_used_at,
        expires_at: session.expires_at,
    };
    Entity::insert(ActiveModel::from(row))
        .exec_without_returning(conn)
        .await?;
    Ok(())
}

/// Finds the session of a token, whatever its age. The token is the credential that identifies the owner.
pub async fn find_by_hash(conn: &impl ConnectionTrait, hash: &str) -> Result<Option<SignInSession>, StoreError> {
    let row = Entity::find().filter(Column::TokenHash.eq(hash)).one(conn).await?;
    row.map(from_row).transpose()
}

/// Finds a session of a platform, whatever its age.
pub async fn find(
    conn: &impl ConnectionTrait,
    platform: &PlatformId,
    id: &SessionId,
) -> Result<Option<SignInSession>, StoreError> {
    let found = Entity::find()
        .filter(Column::PlatformId.eq(platform.as_str()))
        .filter(Column::Id.eq(id.as_str()));
    found.one(conn).await?.map(from_row).transpose()
}

/// The sessions of a person on a platform.
fn of(platform: &PlatformId, person: &SignedInPerson) -> Condition {
    let whose = match person {
        SignedInPerson::Wallet(wallet) => Column::Wallet.eq(wallet.canonical()),
        SignedInPerson::Account(account) => Column::AccountId.eq(account.as_str()),
    };
    Condition::all()
        .add(Column::PlatformId.eq(platform.as_str()))
        .add(whose)
}

/// The newest sessions of a person, whatever their age.
pub async fn list(
    conn: &impl ConnectionTrait,
    platform: &PlatformId,
    person: &SignedInPerson,
    limit: u64,
) -> Result<Vec<SignInSession>, StoreError> {
    let found = Entity::find()
        .filter(of(platform, person))
        .order_by_desc(Column::Id)
        .limit(limit);
    found.all(conn).await?.into_iter().map(from_row).collect()
}

/// Ends one session of a person; returns whether it existed.
pub async fn delete(
    conn: &impl ConnectionTrait,
    platform: &PlatformId,
    person: &SignedInPerson,
    id: &SessionId,
) -> Result<bool, StoreError> {
    let ended = Entity::delete_many()
        .filter(of(platform, person))
        .filter(Column::Id.eq(id.as_str()));
    Ok(ended.exec(conn).await?.rows_affected == 1)
}

/// Ends the sessions of a person, except one.
pub async fn delete_of(
    conn: &impl ConnectionTrait,
    platform: &PlatformId,
    person: &SignedInPerson,
    kept: Option<&SessionId>,
) -> Result<(), StoreError> {
    let others = of(platform, person).add_option(kept.map(|kept| Column::Id.ne(kept.as_str())));
    Entity::delete_many().filter(others).exec(conn).await?;
    Ok(())
}

/// Records a use of a session and its new expiry, unless the session has already expired. A time before the recorded
/// one changes nothing.
pub async fn touch(
    conn: &impl ConnectionTrait,
    id: &SessionId,
    now: DateTime<Utc>,
    expires_at: DateTime<Utc>,
) -> Result<(), StoreError> {
    Entity::update_many()
        .col_expr(Column::LastUsedAt, Expr::value(now))
        .col_expr(Column::ExpiresAt, Expr::value(expires_at))
        .filter(Column::Id.eq(id.as_str()))
        .filter(Column::ExpiresAt.gt(now))
        .filter(Column::LastUsedAt.lt(now))
        .exec(conn)
        .await?;
    Ok(())
}

/// Ends the session of a token; returns whether it existed.
pub async fn delete_by_hash(conn: &impl ConnectionTrait, hash: &str) -> Result<bool, StoreError> {
    let result = Entity::delete_many()
        .filter(Column::TokenHash.eq(hash))
        .exec(conn)
        .await?;
    Ok(result.rows_affected == 1)
}

/// Deletes expired sessions, at most `limit`; returns how many.
pub async fn forget(conn: &impl ConnectionTrait, now: DateTime<Utc>, limit: u64) -> Result<u64, StoreError> {
    // A session that was used in the meantime has a later expiry.
    let over = Condition::all().add(Column::ExpiresAt.lte(now));
    columns::delete_oldest::<Entity>(conn, Column::Id, Column::ExpiresAt, over, limit).await
}
