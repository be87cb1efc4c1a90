//! Payers. The personal data of a payer is encrypted with the payer's own key; queries find it by keyed hashes. Source:
//! ADR-0021.

use super::{
    Sealing, StoreError, columns, off_ramp_quotes, payer_details,
    payer_keys::{self, Keyring, PayerText},
    sealed,
};
use crate::{
    domain::{
        event::{AgreementStatus, KycStatus},
        ids::{PayerId, PlatformId, Secret},
        payer::{CompliancePayer, standing::PayerCompliance},
    },
    ports::sealer::EncryptionContext,
};
use chrono::{DateTime, Utc};
use entities::{
    bank_accounts,
    payers::{ActiveModel, Column, Entity, Model},
};
use sea_orm::{
    ActiveModelTrait, ColumnTrait, Condition, ConnectionTrait, EntityTrait, IntoActiveModel, QueryFilter, QueryOrder,
    QuerySelect,
    sea_query::{Expr, LockType},
};

/// Encryption context of the personal data of a payer.
fn place<'a>(platform: &'a str, payer: &'a str) -> EncryptionContext<'a> {
    EncryptionContext {
        column: "payers.details",
        owner: platform,
        row: payer,
    }
}

/// Keyed hash of the tenant's own id of a payer.
fn client_user_hash(conn: &impl Sealing, platform: &PlatformId, client_user_id: &str) -> Result<String, StoreError> {
    sealed::lookup(conn, &format!("payers.client_user_id\n{platform}\n{client_user_id}"))
}

/// Keyed hash of the partner's id of a payer.
fn partner_hash(conn: &impl Sealing, partner: &str) -> Result<String, StoreError> {
    sealed::lookup(conn, &format!("payers.partner\n{partner}"))
}

fn to_row(conn: &impl Sealing, payer: &CompliancePayer, key: &Secret) -> Result<Model, StoreError> {
    let details = payer_details::write_payer(&payer.details)?;
    let place = place(payer.platform.as_str(), payer.id.as_str());
    Ok(Model {
        id: payer.id.0.clone(),
        platform_id: payer.platform.0.clone(),
        user_id: payer.user_id.clone(),
        client_user_hash: Some(client_user_hash(conn, &payer.platform, &payer.details.client_user_id)?),
        partner_hash: Some(partner_hash(conn, &payer.details.partner)?),
        details: Some(payer_keys::seal(conn, &payer.id, key, details, place)?),
        kyc: payer.standing.kyc.wire().to_owned(),
        agreement: payer.standing.agreement.wire().to_owned(),
        version: columns::number("version", payer.version)?,
        partner_version: columns::number("partner_version", payer.partner_version)?,
        created_at: payer.created_at,
        changed_at: payer.changed_at,
        ask_at: payer.ask_at,
        erasing_at: None,
        erased_at: None,
        in_flight_until: payer.in_flight_until,
        erasure_wanted_at: None,
    })
}

/// Reads a row; `None` when its payer is erased.
async fn from_row(conn: &impl Sealing, row: Model) -> Result<Option<CompliancePayer>, StoreError> {
    let (platform, id) = (PlatformId(row.platform_id), PayerId(row.id));
    let Some(details) = row.details else { return Ok(None) };
    let ring = Keyring::of(conn, &(&platform).into(), [&id]).await?;
    let PayerText::Text(details) = ring.open(conn, details, place(platform.as_str(), id.as_str()))? else {
        return Ok(None);
    };
    Ok(Some(CompliancePayer {
        details: payer_details::read_payer(&details)?,
        standing: PayerCompliance {
            kyc: columns::known("kyc", &row.kyc, KycStatus::from_wire)?,
            agreement: columns::known("agreement", &row.agreement, AgreementStatus::from_wire)?,
        },
        user_id: row.user_id,
        version: columns::number("version", row.version)?,
        partner_version: columns::number("partner_version", row.partner_version)?,
        created_at: row.created_at,
        changed_at: row.changed_at,
        ask_at: row.ask_at,
        is_erasing: row.erasing_at.is_some(),
        is_leaving: row.erasure_wanted_at.is_some(),
        in_flight_until: row.in_flight_until,
        id,
        platform,
    }))
}

fn owned(platform: &PlatformId, payer: &PayerId) -> Condition {
    Condition::all()
        .add(Column::PlatformId.eq(platform.as_str()))
        .add(Column::Id.eq(payer.as_str()))
}

/// Finds a payer by the tenant's own id, also while the payer is being erased.
pub async fn find(
    conn: &impl Sealing,
    platform: &PlatformId,
    client_user_id: &str,
) -> Result<Option<CompliancePayer>, StoreError> {
    let row = Entity::find()
        .filter(Column::PlatformId.eq(platform.as_str()))
        .filter(Column::ClientUserHash.eq(client_user_hash(conn, platform, client_user_id)?))
        .one(conn)
        .await?;
    match row {
        Some(row) => from_row(conn, row).await,
        None => Ok(None),
    }
}

/// Finds a payer by the partner's id. The partner signed this id, and it identifies the owner.
pub async fn find_by_partner(conn: &impl Sealing, partner: &str) -> Result<Option<CompliancePayer>, StoreError> {
    let row = Entity::find()
        .filter(Column::PartnerHash.eq(partner_hash(conn, partner)?))
        .one(conn)
        .await?;
    match row {
        Some(row) => from_row(conn, row).await,
        None => Ok(None),
    }
}

/// Reads a payer and locks it until the transaction ends.
pub async fn lock(
    conn: &impl Sealing,
    platform: &PlatformId,
    payer: &PayerId,
) -> Result<Option<CompliancePayer>, StoreError> {
    let row = Entity::find()
        .filter(owned(platform, payer))
        .lock(LockType::NoKeyUpdate)
        .one(conn)
        .await?;
    match row {
        Some(row) => from_row(conn, row).await,
        None => Ok(None),
    }
}

/// Result of [`hold`]: whether an erasure was requested for a payer who cannot be erased now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErasureHold {
    /// No erasure was requested.
    Staying,
    /// An erasure was requested, and waits until the payer's money is paid out.
    Leaving,
}

/// Prevents the erasure of a payer until the transaction ends; `None` for a payer that is erased or being erased.
///
/// A flow that opens an order for a payer calls this function first. A flow that erases a payer checks for open orders
/// after it has locked the payer.
pub async fn hold(
    conn: &impl ConnectionTrait,
    platform: &PlatformId,
    payer: &PayerId,
) -> Result<Option<ErasureHold>, StoreError> {
    let held: Option<Option<DateTime<Utc>>> = Entity::find()
        .select_only()
        .column(Column::ErasureWantedAt)
        .filter(owned(platform, payer))
        .filter(Column::ErasingAt.is_null())
        .filter(Column::ErasedAt.is_null())
        .lock(LockType::NoKeyUpdate)
        .into_tuple()
        .one(conn)
        .await?;
    Ok(held.map(|wanted_at| match wanted_at {
        None => ErasureHold::Staying,
        Some(_) => ErasureHold::Leaving,
    }))
}

/// Adds a payer with a new key. Needs a transaction.
///
/// Errors: [`StoreError::Conflict`] with [`super::PAYER`] when the tenant has a payer with this id, or another payer
/// has the partner's id.
pub async fn insert(conn: &impl Sealing, payer: &CompliancePayer) -> Result<(), StoreError> {
    let key = payer_keys::draw(conn, &payer.platform, &payer.id).await?;
    Entity::insert(ActiveModel::from(to_row(conn, payer, &key)?))
        .exec_without_returning(conn)
        .await?;
    Ok(())
}

/// Writes a payer that is locked. Errors: as [`insert`].
pub async fn update(conn: &impl Sealing, payer: &CompliancePayer) -> Result<(), StoreError> {
    let ring = Keyring::of(conn, &(&payer.platform).into(), [&payer.id]).await?;
    let Some(key) = ring.get(&payer.id) else {
        return Err(StoreError::Broken(anyhow::anyhow!(
            "the encryption key of payer {} is missing",
            payer.id
        )));
    };
    let row = to_row(conn, payer, key)?;
    let kept = [
        Column::Id,
        Column::PlatformId,
        Column::UserId,
        Column::CreatedAt,
        Column::ErasingAt,
        Column::ErasedAt,
        Column::InFlightUntil,
        Column::ErasureWantedAt,
    ];
    let mut changes = row.into_active_model().reset_all();
    for column in kept {
        changes.not_set(column);
    }
    Entity::update_many()
        .set(changes)
        .filter(owned(&payer.platform, &payer.id))
        .exec(conn)
        .await?;
    Ok(())
}

/// Records since when the tenant has wanted a payer erased, or that the tenant no longer wants it.
pub async fn want_erased(
    conn: &impl ConnectionTrait,
    platform: &PlatformId,
    payer: &PayerId,
    since: Option<DateTime<Utc>>,
) -> Result<(), StoreError> {
    Entity::update_many()
        .col_expr(Column::ErasureWantedAt, Expr::value(since))
        .filter(owned(platform, payer))
        .exec(conn)
        .await?;
    Ok(())
}

/// Records until when a call that registers, changes or erases a payer at the partner may be in flight. Needs the lock
/// of the payer.
pub async fn set_in_flight(
    conn: &impl ConnectionTrait,
    platform: &PlatformId,
    payer: &PayerId,
    until: DateTime<Utc>,
) -> Result<(), StoreError> {
    Entity::update_many()
        .col_expr(Column::InFlightUntil, Expr::value(until))
        .filter(owned(platform, payer))
        .exec(conn)
        .await?;
    Ok(())
}

/// Records that the call recorded with `until` is no longer in flight, unless another call may be in flight for longer.
pub async fn clear_in_flight(
    conn: &impl ConnectionTrait,
    platform: &PlatformId,
    payer: &PayerId,
    until: DateTime<Utc>,
) -> Result<(), StoreError> {
    Entity::update_many()
        .col_expr(Column::InFlightUntil, Expr::value(None::<DateTime<Utc>>))
        .filter(owned(platform, payer))
        .filter(Column::InFlightUntil.lte(until))
        .exec(conn)
        .await?;
    Ok(())
}

/// Records that a payer is to be erased, and when the service calls the partner.
pub async fn mark_erasing(
    conn: &impl ConnectionTrait,
    platform: &PlatformId,
    payer: &PayerId,
    now: DateTime<Utc>,
    ask_at: DateTime<Utc>,
) -> Result<(), StoreError> {
    Entity::update_many()
        .col_expr(Column::ErasingAt, Expr::value(now))
        .col_expr(Column::AskAt, Expr::value(ask_at))
        .filter(owned(platform, payer))
        .exec(conn)
        .await?;
    Ok(())
}

/// Erases a payer with its bank accounts. The rows stay for amounts and times, but no personal data can be read or
/// found again. In SQLite, traces of the key that are left in the file have to be removed by `wipe_at` at the latest.
/// Needs a transaction.
pub async fn erase(
    conn: &impl ConnectionTrait,
    platform: &PlatformId,
    payer: &PayerId,
    now: DateTime<Utc>,
    wipe_at: DateTime<Utc>,
) -> Result<(), StoreError> {
    use bank_accounts::Column as Account;
    payer_keys::forget(conn, platform, payer).await?;
    off_ramp_quotes::forget(conn, platform, payer).await?;
    let nothing = || Expr::value(None::<String>);
    let never = || Expr::value(None::<DateTime<Utc>>);
    bank_accounts::Entity::update_many()
        .col_expr(Account::Details, nothing())
        .col_expr(Account::PartnerHash, nothing())
        .col_expr(Account::ContentHash, nothing())
        .col_expr(Account::AskAt, never())
        .filter(Account::PlatformId.eq(platform.as_str()))
        .filter(Account::PayerId.eq(payer.as_str()))
        .exec(conn)
        .await?;
    Entity::update_many()
        .col_expr(Column::Details, nothing())
        .col_expr(Column::ClientUserHash, nothing())
        .col_expr(Column::PartnerHash, nothing())
        .col_expr(Column::AskAt, Expr::value(wipe_at))
        .col_expr(Column::ErasedAt, Expr::value(now))
        .filter(owned(platform, payer))
        .exec(conn)
        .await?;
    Ok(())
}

/// Returns payers about whom a query to the partner is due, the longest waiting first, and postpones their next query.
/// Needs a transaction.
pub async fn take_due(
    conn: &impl Sealing,
    now: DateTime<Utc>,
    again_at: DateTime<Utc>,
    limit: u64,
) -> Result<Vec<CompliancePayer>, StoreError> {
    let postponement = columns::Postponement { now, again_at };
    let rows = columns::take_due::<Entity>(
        conn,
        Column::Id,
        Column::AskAt,
        Condition::all().add(Column::ErasedAt.is_null()),
        postponement,
        limit,
        |row| &row.id,
    )
    .await?;
    let mut payers = Vec::new();
    for row in rows {
        payers.extend(from_row(conn, row).await?);
    }
    Ok(payers)
}

/// Sets when the partner is queried next about a payer. The time of an erasure call is unchanged.
pub async fn ask_again(
    conn: &impl ConnectionTrait,
    payer: &CompliancePayer,
    at: Option<DateTime<Utc>>,
) -> Result<(), StoreError> {
    Entity::update_many()
        .col_expr(Column::AskAt, Expr::value(at))
        .filter(owned(&payer.platform, &payer.id))
        .filter(Column::ErasingAt.is_null())
        .exec(conn)
        .await?;
    Ok(())
}

/// Erased payers whose deleted key may still be in the files of SQLite.
pub async fn unwiped(
    conn: &impl ConnectionTrait,
    now: DateTime<Utc>,
    limit: u64,
) -> Result<Vec<(PlatformId, PayerId)>, StoreError> {
    let rows: Vec<(String, String)> = Entity::find()
        .select_only()
        .columns([Column::PlatformId, Column::Id])
        .filter(Column::AskAt.lte(now))
        .filter(Column::ErasedAt.is_not_null())
        .order_by_asc(Column::AskAt)
        .limit(limit)
        .into_tuple()
        .all(conn)
        .await?;
    let named = |(platform, payer)| (PlatformId(platform), PayerId(payer));
    Ok(rows.into_iter().map(named).collect())
}

/// Records that no trace of the key of an erased payer is left.
pub async fn wiped(conn: &impl ConnectionTrait, platform: &PlatformId, payer: &PayerId) -> Result<(), StoreError> {
    Entity::update_many()
        .col_expr(Column::AskAt, Expr::value(None::<DateTime<Utc>>))
        .filter(owned(platform, payer))
        .filter(Column::ErasedAt.is_not_null())
        .exec(conn)
        .await?;
    Ok(())
}
