//! Bank accounts of payers. The personal data of a holder is encrypted with the key of the payer. Source: ADR-0021.

use super::{
    Sealing, StoreError, columns, payer_details,
    payer_keys::{self, Keyring, PayerText},
    sealed,
};
use crate::{
    domain::{
        event::PaymentDetailStatus,
        ids::{BankAccountId, OwnerId, PayerId, PlatformId, Secret},
        payer::{BankAccount, RegisteredAccount},
    },
    ports::sealer::EncryptionContext,
};
use chrono::{DateTime, Utc};
use entities::bank_accounts::{ActiveModel, Column, Entity, Model};
use sea_orm::{
    ActiveModelTrait, ColumnTrait, Condition, ConnectionTrait, EntityTrait, IntoActiveModel, PaginatorTrait,
    QueryFilter, QueryOrder, sea_query::Expr,
};

fn place<'a>(platform: &'a str, account: &'a str) -> EncryptionContext<'a> {
    EncryptionContext {
        column: "bank_accounts.details",
        owner: platform,
        row: account,
    }
}

fn partner_hash(conn: &impl Sealing, partner: &str) -> Result<String, StoreError> {
    sealed::lookup(conn, &format!("bank_accounts.partner\n{partner}"))
}

/// Keyed hash of the bank account data that was submitted for a payer, and of how often the same data failed before.
/// Equal hashes mean the same account, and a failed account can be submitted again as a new one.
pub fn content_hash(
    conn: &impl Sealing,
    payer: &PayerId,
    account: &BankAccount,
    failures: u64,
) -> Result<String, StoreError> {
    let content = payer_details::write_bank_account(account)?;
    sealed::lookup(conn, &format!("bank_accounts.content\n{payer}\n{failures}\n{content}"))
}

fn to_row(conn: &impl Sealing, account: &RegisteredAccount, key: &Secret) -> Result<Model, StoreError> {
    let details = payer_details::write_account(&account.details)?;
    let place = place(account.platform.as_str(), account.id.as_str());
    Ok(Model {
        id: account.id.0.clone(),
        platform_id: account.platform.0.clone(),
        payer_id: account.payer.0.clone(),
        payment_detail_id: account.payment_detail.clone(),
        partner_hash: Some(partner_hash(conn, &account.details.partner)?),
        content_hash: Some(account.content_hash.clone()),
        details: Some(payer_keys::seal(conn, &account.payer, key, details, place)?),
        status: account.status.wire().to_owned(),
        told: account.told.map(|told| told.wire().to_owned()),
        version: columns::number("version", account.version)?,
        partner_version: columns::number("partner_version", account.partner_version)?,
        created_at: account.created_at,
        changed_at: account.changed_at,
        ask_at: account.ask_at,
    })
}

/// Reads rows of a tenant; accounts of erased payers are left out.
async fn from_rows(
    conn: &impl Sealing,
    owner: &OwnerId,
    rows: Vec<Model>,
) -> Result<Vec<RegisteredAccount>, StoreError> {
    let payers: Vec<PayerId> = rows.iter().map(|row| PayerId(row.payer_id.clone())).collect();
    let ring = Keyring::of(conn, owner, &payers).await?;
    let mut accounts = Vec::new();
    for row in rows {
        let Some((details, content_hash)) = row.details.zip(row.content_hash) else {
            continue;
        };
        let PayerText::Text(details) = ring.open(conn, details, place(&row.platform_id, &row.id))? else {
            continue;
        };
        let status = |text: &str| columns::known("status", text, PaymentDetailStatus::from_wire);
        accounts.push(RegisteredAccount {
            id: BankAccountId(row.id),
            platform: PlatformId(row.platform_id),
            payer: PayerId(row.payer_id),
            payment_detail: row.payment_detail_id,
            content_hash,
            status: status(&row.status)?,
            told: row.told.as_deref().map(status).transpose()?,
            version: columns::number("version", row.version)?,
            partner_version: columns::number("partner_version", row.partner_version)?,
            created_at: row.created_at,
            changed_at: row.changed_at,
            ask_at: row.ask_at,
            details: payer_details::read_account(&details)?,
        });
    }
    Ok(accounts)
}

fn of_payer(platform: &PlatformId, payer: &PayerId) -> Condition {
    Condition::all()
        .add(Column::PlatformId.eq(platform.as_str()))
        .add(Column::PayerId.eq(payer.as_str()))
}

fn owned(account: &RegisteredAccount) -> Condition {
    of_payer(&account.platform, &account.payer).add(Column::Id.eq(account.id.as_str()))
}

/// The bank accounts of a payer, the oldest first.
pub async fn list(
    conn: &impl Sealing,
    platform: &PlatformId,
    payer: &PayerId,
) -> Result<Vec<RegisteredAccount>, StoreError> {
    let rows = Entity::find()
        .filter(of_payer(platform, payer))
        .order_by_asc(Column::CreatedAt)
        .order_by_asc(Column::Id)
        .all(conn)
        .await?;
    from_rows(conn, &platform.into(), rows).await
}

/// Finds a bank account of a payer by its public id.
pub async fn find(
    conn: &impl Sealing,
    platform: &PlatformId,
    payer: &PayerId,
    payment_detail: &str,
) -> Result<Option<RegisteredAccount>, StoreError> {
    let rows = Entity::find()
        .filter(of_payer(platform, payer))
        .filter(Column::PaymentDetailId.eq(payment_detail))
        .all(conn)
        .await?;
    Ok(from_rows(conn, &platform.into(), rows).await?.pop())
}

/// Finds a bank account by the partner's id. The partner signed this id, and it identifies the owner.
pub async fn find_by_partner(conn: &impl Sealing, partner: &str) -> Result<Option<RegisteredAccount>, StoreError> {
    let rows = Entity::find()
        .filter(Column::PartnerHash.eq(partner_hash(conn, partner)?))
        .all(conn)
        .await?;
    let owner = rows.first().map(|row| OwnerId(row.platform_id.clone()));
    match owner {
        Some(owner) => Ok(from_rows(conn, &owner, rows).await?.pop()),
        None => Ok(None),
    }
}

/// How many bank accounts a payer has.
pub async fn count(conn: &impl ConnectionTrait, platform: &PlatformId, payer: &PayerId) -> Result<u64, StoreError> {
    Ok(Entity::find().filter(of_payer(platform, payer)).count(conn).await?)
}

async fn key_of(conn: &impl Sealing, account: &RegisteredAccount) -> Result<Secret, StoreError> {
    let ring = Keyring::of(conn, &(&account.platform).into(), [&account.payer]).await?;
    let key = ring.get(&account.payer).cloned();
    key.ok_or_else(|| {
        StoreError::Broken(anyhow::anyhow!(
            "the encryption key of payer {} is missing",
            account.payer
        ))
    })
}

/// Adds a bank account to a payer that is locked.
///
/// Errors: [`StoreError::Conflict`] with [`super::BANK_ACCOUNT`] when the account already exists, or another account
/// has the partner's id.
pub async fn insert(conn: &impl Sealing, account: &RegisteredAccount) -> Result<(), StoreError> {
    let key = key_of(conn, account).await?;
    Entity::insert(ActiveModel::from(to_row(conn, account, &key)?))
        .exec_without_returning(conn)
        .await?;
    Ok(())
}

/// Writes a bank account of a payer that is locked.
pub async fn update(conn: &impl Sealing, account: &RegisteredAccount) -> Result<(), StoreError> {
    let key = key_of(conn, account).await?;
    let mut changes = to_row(conn, account, &key)?.into_active_model().reset_all();
    for column in [
        Column::Id,
        Column::PlatformId,
        Column::PayerId,
        Column::PaymentDetailId,
        Column::CreatedAt,
    ] {
        changes.not_set(column);
    }
    Entity::update_many()
        .set(changes)
        .filter(owned(account))
        .exec(conn)
        .await?;
    Ok(())
}

/// Returns bank accounts about which a query to the partner is due, the longest waiting first, and postpones their next
/// query. Needs a transaction.
pub async fn take_due(
    conn: &impl Sealing,
    now: DateTime<Utc>,
    again_at: DateTime<Utc>,
    limit: u64,
) -> Result<Vec<RegisteredAccount>, StoreError> {
    let postponement = columns::Postponement { now, again_at };
    let rows = columns::take_due::<Entity>(
        conn,
        Column::Id,
        Column::AskAt,
        Condition::all(),
        postponement,
        limit,
        |row| &row.id,
    )
    .await?;
    let mut accounts = Vec::new();
    for row in rows {
        let owner = OwnerId(row.platform_id.clone());
        accounts.extend(from_rows(conn, &owner, vec![row]).await?);
    }
    Ok(accounts)
}

/// Sets when the partner is queried next about a bank account.
pub async fn ask_again(
    conn: &impl ConnectionTrait,
    account: &RegisteredAccount,
    at: Option<DateTime<Utc>>,
) -> Result<(), StoreError> {
    Entity::update_many()
        .col_expr(Column::AskAt, Expr::value(at))
        .filter(owned(account))
        .exec(conn)
        .await?;
    Ok(())
}
