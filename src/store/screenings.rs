//! The screening results of the wallets of secure payments, and the queries that were sent to screening providers
//! within the last hour.

use super::{StoreError, columns};
use crate::domain::{
    address::Address,
    destination::ScreeningProvider,
    ids::{PlatformId, SecurePaymentId},
    screening::{ScreenedWallet, Screening, ScreeningAttempt, ScreeningStatus},
    secure_payment::access::WalletAccountType,
};
use chrono::{DateTime, Utc};
use entities::{
    screening_questions::{self, Column as Asked},
    screenings::{ActiveModel, Column, Entity, Model},
};
use sea_orm::{
    ColumnTrait, Condition, ConnectionTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect,
    sea_query::{Expr, ExprTrait, OnConflict},
};

fn to_row(platform: &PlatformId, payment: &SecurePaymentId, screening: &Screening) -> Model {
    let wallet = &screening.wallet;
    Model {
        platform_id: platform.0.clone(),
        secure_payment_id: payment.0.clone(),
        wallet: wallet.address.canonical(),
        wallet_kind: wallet.kind.wire().to_owned(),
        parent_wallet: wallet.parent.map(|parent| parent.canonical()),
        status: screening.status.wire().to_owned(),
        provider: screening.provider.wire().to_owned(),
        raw_status: screening.raw_status.clone(),
        evaluated_at: screening.evaluated_at,
    }
}

fn from_row(row: Model) -> Result<Screening, StoreError> {
    Ok(Screening {
        wallet: ScreenedWallet {
            address: columns::address("wallet", &row.wallet)?,
            kind: columns::known("wallet_kind", &row.wallet_kind, WalletAccountType::from_wire)?,
            parent: columns::address_option("parent_wallet", row.parent_wallet.as_deref())?,
        },
        status: columns::known("status", &row.status, ScreeningStatus::from_wire)?,
        provider: columns::known("provider", &row.provider, ScreeningProvider::from_wire)?,
        raw_status: row.raw_status,
        evaluated_at: row.evaluated_at,
    })
}

fn of_payment(platform: &PlatformId, payment: &SecurePaymentId) -> Condition {
    Condition::all()
        .add(Column::PlatformId.eq(platform.as_str()))
        .add(Column::SecurePaymentId.eq(payment.as_str()))
}

/// Results for wallets of a secure payment; a wallet without a result is missing.
pub async fn of_wallets(
    conn: &impl ConnectionTrait,
    platform: &PlatformId,
    payment: &SecurePaymentId,
    wallets: &[ScreenedWallet],
) -> Result<Vec<Screening>, StoreError> {
    let addresses = wallets.iter().map(|wallet| wallet.address.canonical());
    let rows = Entity::find()
        .filter(of_payment(platform, payment))
        .filter(Column::Wallet.is_in(addresses))
        .all(conn)
        .await?;
    rows.into_iter().map(from_row).collect()
}

/// Results for wallets of a secure payment, the newest first, at most `limit`.
pub async fn of_payment_newest(
    conn: &impl ConnectionTrait,
    platform: &PlatformId,
    payment: &SecurePaymentId,
    limit: u64,
) -> Result<Vec<Screening>, StoreError> {
    let rows = Entity::find()
        .filter(of_payment(platform, payment))
        .order_by_desc(Column::EvaluatedAt)
        .order_by_asc(Column::Wallet)
        .limit(limit)
        .all(conn)
        .await?;
    rows.into_iter().map(from_row).collect()
}

/// Stores results for wallets of a secure payment. Existing results stay unchanged.
pub async fn keep(
    conn: &impl ConnectionTrait,
    platform: &PlatformId,
    payment: &SecurePaymentId,
    found: &[Screening],
) -> Result<(), StoreError> {
    if found.is_empty() {
        return Ok(());
    }
    let rows = found
        .iter()
        .map(|screening| ActiveModel::from(to_row(platform, payment, screening)));
    let key = [Column::PlatformId, Column::SecurePaymentId, Column::Wallet];
    Entity::insert_many(rows)
        .on_conflict(OnConflict::columns(key).do_nothing().to_owned())
        .exec_without_returning(conn)
        .await?;
    Ok(())
}

fn asked_of(platform: &PlatformId, payment: &SecurePaymentId) -> Condition {
    Condition::all()
        .add(Asked::PlatformId.eq(platform.as_str()))
        .add(Asked::SecurePaymentId.eq(payment.as_str()))
}

/// Queries about wallets of a secure payment, the oldest first.
pub async fn questions(
    conn: &impl ConnectionTrait,
    platform: &PlatformId,
    payment: &SecurePaymentId,
) -> Result<Vec<ScreeningAttempt>, StoreError> {
    let rows = screening_questions::Entity::find()
        .filter(asked_of(platform, payment))
        .order_by_asc(Asked::AskedAt)
        .all(conn)
        .await?;
    let read = |row: screening_questions::Model| {
        Ok(ScreeningAttempt {
            wallet: columns::address("wallet", &row.wallet)?,
            asked_at: row.asked_at,
            failures: columns::number("failures", row.failures)?,
            is_open: row.is_open,
        })
    };
    rows.into_iter().map(read).collect()
}

/// Deletes the queries of a secure payment that were sent at or before a time.
pub async fn forget_questions(
    conn: &impl ConnectionTrait,
    platform: &PlatformId,
    payment: &SecurePaymentId,
    before: DateTime<Utc>,
) -> Result<(), StoreError> {
    screening_questions::Entity::delete_many()
        .filter(asked_of(platform, payment))
        .filter(Asked::AskedAt.lte(before))
        .exec(conn)
        .await?;
    Ok(())
}

/// Records queries about wallets of a secure payment.
pub async fn open_questions(
    conn: &impl ConnectionTrait,
    platform: &PlatformId,
    payment: &SecurePaymentId,
    wallets: &[ScreenedWallet],
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    if wallets.is_empty() {
        return Ok(());
    }
    let rows = wallets.iter().map(|wallet| {
        screening_questions::ActiveModel::from(screening_questions::Model {
            platform_id: platform.0.clone(),
            secure_payment_id: payment.0.clone(),
            wallet: wallet.address.canonical(),
            asked_at: now,
            failures: 0,
            is_open: true,
        })
    });
    let again = OnConflict::columns([Asked::PlatformId, Asked::SecurePaymentId, Asked::Wallet])
        .update_columns([Asked::AskedAt, Asked::IsOpen])
        .to_owned();
    screening_questions::Entity::insert_many(rows)
        .on_conflict(again)
        .exec_without_returning(conn)
        .await?;
    Ok(())
}

/// Records that queries about wallets of a secure payment were answered, or ended without a result.
pub async fn close_questions(
    conn: &impl ConnectionTrait,
    platform: &PlatformId,
    payment: &SecurePaymentId,
    wallets: &[Address],
    is_answered: bool,
) -> Result<(), StoreError> {
    let failures = if is_answered {
        Expr::value(0)
    } else {
        Expr::col(Asked::Failures).add(1)
    };
    if wallets.is_empty() {
        return Ok(());
    }
    let addresses = wallets.iter().map(Address::canonical);
    screening_questions::Entity::update_many()
        .col_expr(Asked::Failures, failures)
        .col_expr(Asked::IsOpen, Expr::value(false))
        .filter(asked_of(platform, payment))
        .filter(Asked::Wallet.is_in(addresses))
        .exec(conn)
        .await?;
    Ok(())
}
