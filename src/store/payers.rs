//! Payers. All that names one is sealed with its own key; it is found by keyed hashes. Source: ADR-0021.

use super::{
    Sealing, StoreError, columns, off_ramp_quotes, payer_details,
    payer_keys::{self, Keyring, Opened},
    sealed,
};
use crate::{
    domain::{
        event::{AgreementStatus, KycStatus},
        ids::{PayerId, PlatformId, Secret},
        payer::{Payer, standing::Standing},
    },
    ports::sealer::Place,
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

/// Where the details of a payer stand.
fn place<'a>(platform: &'a str, payer: &'a str) -> Place<'a> {
    Place {
        column: "payers.details",
        owner: platform,
        row: payer,
    }
}

/// By what the tenant's own id of a payer is found.
fn client_user_hash(conn: &impl Sealing, platform: &PlatformId, client_user_id: &str) -> Result<String, StoreError> {
    sealed::lookup(conn, &format!("payers.client_user_id\n{platform}\n{client_user_id}"))
}

/// By what the partner's id of a payer is found.
fn partner_hash(conn: &impl Sealing, partner: &str) -> Result<String, StoreError> {
    sealed::lookup(conn, &format!("payers.partner\n{partner}"))
}

fn to_row(conn: &impl Sealing, payer: &Payer, key: &Secret) -> Result<Model, StoreError> {
    let details = payer_details::write_payer(&payer.details)?;
    let place = place(payer.platform.as_str(), payer.id.as_str());
    Ok(Model {
        id: payer.id.0.clone(),
        platform_id: payer.platform.0.clone(),
        user_id: payer.user_id.clone(),
        client_user_hash: Some(client_user_hash(conn, &payer.platform, &payer.details.client_user_id)?),
        partner_hash: Some(partner_hash(conn, &payer.details.partner)?),
        details: Some(payer_keys::seal(conn, (&payer.id, key), details, place)?),
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
async fn from_row(conn: &impl Sealing, row: Model) -> Result<Option<Payer>, StoreError> {
    let (platform, id) = (PlatformId(row.platform_id), PayerId(row.id));
    let Some(details) = row.details else { return Ok(None) };
    let ring = Keyring::of(conn, &(&platform).into(), [&id]).await?;
    let Opened::Text(details) = ring.open(conn, details, place(platform.as_str(), id.as_str()))? else {
        return Ok(None);
    };
    Ok(Some(Payer {
        details: payer_details::read_payer(&details)?,
        standing: Standing {
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

/// Finds a payer by the tenant's own id; one that is being erased too.
pub async fn find(
    conn: &impl Sealing,
    platform: &PlatformId,
    client_user_id: &str,
) -> Result<Option<Payer>, StoreError> {
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

/// Finds a payer by the partner's id. That is a part of what the partner signed, and names the owner.
pub async fn find_by_partner(conn: &impl Sealing, partner: &str) -> Result<Option<Payer>, StoreError> {
    let row = Entity::find()
        .filter(Column::PartnerHash.eq(partner_hash(conn, partner)?))
        .one(conn)
        .await?;
    match row {
        Some(row) => from_row(conn, row).await,
        None => Ok(None),
    }
}

/// Reads a payer and keeps others from changing it until the transaction ends.
pub async fn lock(conn: &impl Sealing, platform: &PlatformId, payer: &PayerId) -> Result<Option<Payer>, StoreError> {
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

/// A payer who is kept from being erased.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    /// Nobody wants it erased.
    Staying,
    /// It is to be erased once its money has arrived.
    Leaving,
}

/// Keeps a payer from being erased until the transaction ends; `None` of one who is erased or about to be.
///
/// Whoever opens an order for a payer does this first, and whoever erases one looks for open orders after it.
pub async fn hold(
    conn: &impl ConnectionTrait,
    platform: &PlatformId,
    payer: &PayerId,
) -> Result<Option<Held>, StoreError> {
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
        None => Held::Staying,
        Some(_) => Held::Leaving,
    }))
}

/// Adds a payer with a new key. Needs a transaction.
///
/// Errors: [`StoreError::Conflict`] with [`super::PAYER`] when the tenant has one of this id, or the partner's id is that of
/// another one.
pub async fn insert(conn: &impl Sealing, payer: &Payer) -> Result<(), StoreError> {
    let key = payer_keys::draw(conn, &payer.platform, &payer.id).await?;
    Entity::insert(ActiveModel::from(to_row(conn, payer, &key)?))
        .exec_without_returning(conn)
        .await?;
    Ok(())
}

/// Writes a payer that is locked. Errors: as [`insert`].
pub async fn update(conn: &impl Sealing, payer: &Payer) -> Result<(), StoreError> {
    let ring = Keyring::of(conn, &(&payer.platform).into(), [&payer.id]).await?;
    let Some(key) = ring.get(&payer.id) else {
        return Err(StoreError::Broken(anyhow::anyhow!("payer {} has no key", payer.id)));
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

/// Notes since when the tenant wants a payer erased, or that it does not any more.
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

/// Notes until when a call that hands the partner something of a payer, or has it forgotten, may be in flight. Needs the lock
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

/// Notes that no such call is in flight any more, unless one was begun that may be in flight for longer.
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

/// Notes that a payer is to be erased, and that the partner is asked to at a time.
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

/// Erases a payer with its bank accounts: the rows stay, with what amounts and times hang on, and nothing that names anybody
/// can be read or found again. What SQLite keeps of the key has to be emptied, by `wipe_at` at the latest. Needs a transaction.
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

/// Takes payers about whom the partner is to be asked, the longest waiting first, and has others ask at another time.
/// Needs a transaction.
pub async fn take_due(
    conn: &impl Sealing,
    now: DateTime<Utc>,
    again_at: DateTime<Utc>,
    limit: u64,
) -> Result<Vec<Payer>, StoreError> {
    let (keys, times) = ((Column::Id, Column::AskAt), (now, again_at));
    let rows = columns::take_due::<Entity>(
        conn,
        keys,
        Condition::all().add(Column::ErasedAt.is_null()),
        times,
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

/// Says when the partner is asked next about a payer. When it is asked to forget one is not changed.
pub async fn ask_again(
    conn: &impl ConnectionTrait,
    payer: &Payer,
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

/// Erased payers whose key SQLite may still keep somewhere.
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

/// Notes that nothing is left of the key of an erased payer.
pub async fn wiped(conn: &impl ConnectionTrait, platform: &PlatformId, payer: &PayerId) -> Result<(), StoreError> {
    Entity::update_many()
        .col_expr(Column::AskAt, Expr::value(None::<DateTime<Utc>>))
        .filter(owned(platform, payer))
        .filter(Column::ErasedAt.is_not_null())
        .exec(conn)
        .await?;
    Ok(())
}
