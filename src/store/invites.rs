//! Invites, each of which permits one new account. An invite has no owner before its use: anyone with the code, e-mail
//! address or wallet may use it.

use super::{StoreError, columns};
use crate::domain::{
    ids::PlatformId,
    registration::{Claim, Invite},
};
use chrono::{DateTime, Utc};
use entities::invites::{ActiveModel, Column, Entity, Model};
use sea_orm::{ColumnTrait, Condition, ConnectionTrait, EntityTrait, PaginatorTrait, QueryFilter, sea_query::Expr};

/// Stores an invite.
pub async fn insert(conn: &impl ConnectionTrait, invite: &Invite) -> Result<(), StoreError> {
    let (code_hash, email_hash, wallet) = match &invite.claim {
        Claim::Code { hash, email_hash } => (Some(hash.clone()), email_hash.clone(), None),
        Claim::Wallet(wallet) => (None, None, Some(wallet.canonical())),
    };
    let row = Model {
        id: invite.id.0.clone(),
        code_hash,
        email_hash,
        wallet,
        created_at: invite.created_at,
        expires_at: invite.expires_at,
        used_at: None,
        platform_id: None,
    };
    Entity::insert(ActiveModel::from(row))
        .exec_without_returning(conn)
        .await?;
    Ok(())
}

/// Usable invites that match the code, e-mail address or wallet of a new user.
fn fitting(claim: &Claim, now: DateTime<Utc>) -> Condition {
    let fits = match claim {
        Claim::Wallet(wallet) => Condition::all().add(Column::Wallet.eq(wallet.canonical())),
        Claim::Code { hash, email_hash } => {
            let email = Condition::any().add(Column::EmailHash.is_null());
            let email = email.add_option(email_hash.as_ref().map(|hash| Column::EmailHash.eq(hash)));
            Condition::all().add(Column::CodeHash.eq(hash)).add(email)
        }
    };
    fits.add(Column::UsedAt.is_null()).add(Column::ExpiresAt.gt(now))
}

/// Whether a matching invite exists.
pub async fn is_good(conn: &impl ConnectionTrait, claim: &Claim, now: DateTime<Utc>) -> Result<bool, StoreError> {
    Ok(Entity::find().filter(fitting(claim, now)).count(conn).await? > 0)
}

/// Uses up a matching invite, for a new platform; returns whether there was one. Of any number of concurrent calls with
/// one code, exactly one gets true.
pub async fn take(
    conn: &impl ConnectionTrait,
    claim: &Claim,
    platform: &PlatformId,
    now: DateTime<Utc>,
) -> Result<bool, StoreError> {
    let result = Entity::update_many()
        .col_expr(Column::UsedAt, Expr::value(now))
        .col_expr(Column::PlatformId, Expr::value(platform.as_str()))
        .filter(fitting(claim, now))
        .exec(conn)
        .await?;
    Ok(result.rows_affected > 0)
}

/// Deletes expired invites, at most `limit`; returns how many.
pub async fn forget(conn: &impl ConnectionTrait, now: DateTime<Utc>, limit: u64) -> Result<u64, StoreError> {
    let over = Condition::all().add(Column::ExpiresAt.lte(now));
    columns::delete_oldest::<Entity>(conn, Column::Id, Column::ExpiresAt, over, limit).await
}
