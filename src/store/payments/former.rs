//! Payments that a version before wrote, with keys as text: moved in batches while the service runs, and read until then.
//!
//! A row is either here or in the table of now, and whatever changes one moves it before. Who reads both reads this table
//! first: a row that is moved in between is read twice then, and never not at all.

use super::groups::{self, Facets};
use crate::store::{Moving, StoreError, columns};
use alloy::primitives::B256;
use entities::{
    former_payment_parties, former_payment_parties::Column as Party, former_payments, former_payments::Column, payments,
};
use sea_orm::{
    ColumnTrait, Condition, ConnectionTrait, EntityTrait, Order, QueryFilter, QueryOrder, QuerySelect, QueryTrait,
    Value,
    sea_query::{Expr, ExprTrait, LockBehavior, LockType},
};
use std::collections::HashSet;

/// How keys are written in a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// As bytes.
    Bytes,
    /// As text, in the table of before.
    Text,
}

impl Form {
    /// A hash.
    pub(super) fn hash(self, hash: &B256) -> Value {
        match self {
            Self::Bytes => hash.to_vec().into(),
            Self::Text => columns::hash_text(hash).into(),
        }
    }
}

/// Which rows are read, in which order and how many at most.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    /// Which.
    pub(super) condition: Condition,
    /// In which order.
    pub(super) order: Vec<(Expr, Order)>,
    /// How many at most.
    pub(super) limit: Option<u64>,
}

impl From<Condition> for Wanted {
    fn from(condition: Condition) -> Self {
        Self {
            condition,
            order: Vec::new(),
            limit: None,
        }
    }
}

/// Rows of both tables, each once; those of each table in its order. `wanted` writes the same in both forms, with names
/// of columns alone.
pub(super) async fn read_both(
    conn: &impl Moving,
    wanted: impl Fn(Form) -> Wanted,
) -> Result<Vec<payments::Model>, StoreError> {
    let mut before = Vec::new();
    if is_left(conn).await? {
        let Wanted {
            condition,
            order,
            limit,
        } = wanted(Form::Text);
        let mut rows = former_payments::Entity::find().filter(condition).limit(limit);
        for (by, direction) in order {
            rows = rows.order_by(by, direction);
        }
        before = rows.all(conn).await?;
    }
    let Wanted {
        condition,
        order,
        limit,
    } = wanted(Form::Bytes);
    let mut rows = payments::Entity::find().filter(condition).limit(limit);
    for (by, direction) in order {
        rows = rows.order_by(by, direction);
    }
    let mut found = rows.all(conn).await?;
    if !before.is_empty() {
        let known: HashSet<String> = found.iter().map(|row| row.id.clone()).collect();
        let before = before.into_iter().filter(|row| !known.contains(&row.id)).map(converted);
        found.extend(before.collect::<Result<Vec<_>, _>>()?);
    }
    Ok(found)
}

/// Whether rows of before may be left.
pub(super) async fn is_left(conn: &impl Moving) -> Result<bool, StoreError> {
    if conn.is_moved() {
        return Ok(false);
    }
    // By the key: read in the order of the file, what was moved out of it would be passed each time.
    let first = former_payments::Entity::find()
        .select_only()
        .column(Column::Id)
        .order_by_asc(Column::Id)
        .limit(1);
    let first: Option<String> = first.into_tuple().one(conn).await?;
    if first.is_none() {
        conn.note_moved();
    }
    Ok(first.is_some())
}

/// What moving some payments of before came to.
#[derive(Debug)]
pub struct MovedSome {
    /// The last one that was looked at; none when no further one is there.
    pub last: Option<String>,
    /// Those that cannot be read, which stay where they are, and why.
    pub unreadable: Vec<(String, StoreError)>,
    /// Whether there may be more to do.
    pub has_more: bool,
}

/// Moves payments of before that come after an id, at most `limit`, oldest first, and forgets their wallets once all are
/// moved. One that cannot be read stops no other. Payments that somebody else moves are left to them. Needs a transaction.
pub async fn move_some(conn: &impl Moving, after: Option<&str>, limit: u64) -> Result<MovedSome, StoreError> {
    let some = former_payments::Entity::find()
        .filter(Condition::all().add_option(after.map(|id| Column::Id.gt(id))))
        .order_by_asc(Column::Id)
        .limit(limit)
        .lock_with_behavior(LockType::Update, LockBehavior::SkipLocked)
        .all(conn)
        .await?;
    let (mut readable, mut unreadable) = (Vec::new(), Vec::new());
    let last = some.last().map(|row| row.id.clone());
    for row in some {
        let id = row.id.clone();
        match converted(row) {
            Ok(row) => readable.push(row),
            Err(error) => unreadable.push((id, error)),
        }
    }
    if last.is_some() {
        let ids = readable.iter().map(|row| row.id.as_str());
        former_payments::Entity::delete_many()
            .filter(Column::Id.is_in(ids))
            .exec(conn)
            .await?;
        written(conn, &readable).await?;
    }
    Ok(MovedSome {
        has_more: last.is_some() || is_left(conn).await? || forget_some(conn, limit).await?,
        last,
        unreadable,
    })
}

/// Forgets wallets of payments that are moved; tells whether there were any.
async fn forget_some(conn: &impl ConnectionTrait, limit: u64) -> Result<bool, StoreError> {
    let key = [Party::PlatformId, Party::Wallet, Party::PaidAt, Party::PaymentId];
    let mut some = former_payment_parties::Entity::find()
        .select_only()
        .columns(key)
        .limit(limit);
    for column in key {
        some = some.order_by_asc(column);
    }
    let some = some.into_query();
    let forgotten = former_payment_parties::Entity::delete_many()
        .filter(Expr::tuple(key.map(Expr::col)).in_subquery(some))
        .exec(conn)
        .await?;
    Ok(forgotten.rows_affected > 0)
}

/// Moves the rows of before for which a condition holds, so that they can be changed. Needs a transaction.
pub(super) async fn take(conn: &impl Moving, condition: Condition) -> Result<(), StoreError> {
    if is_left(conn).await? {
        let taken = former_payments::Entity::delete_many().filter(condition);
        let taken = taken.exec_with_returning(conn).await?;
        let rows = taken.into_iter().map(converted).collect::<Result<Vec<_>, _>>()?;
        written(conn, &rows).await?;
    }
    Ok(())
}

/// Writes what was taken out of the table of before.
async fn written(conn: &impl ConnectionTrait, rows: &[payments::Model]) -> Result<(), StoreError> {
    for rows in rows.chunks(columns::ROWS_MAX) {
        // Without a word about conflicts: a row that were not written would be lost.
        payments::Entity::insert_many(rows.iter().cloned().map(payments::ActiveModel::from))
            .exec_without_returning(conn)
            .await?;
    }
    groups::enter(conn, rows).await
}

/// The row in the form of now.
pub(super) fn converted(row: former_payments::Model) -> Result<payments::Model, StoreError> {
    let address = |column, text: &str| columns::address(column, text).map(|address| columns::address_bytes(&address));
    let option = |column, text: Option<&str>| text.map(|text| address(column, text)).transpose();
    let hash = |column, text: &str| columns::hash(column, text).map(|hash| hash.to_vec());
    let facets = Facets {
        platform: &row.platform_id,
        kind: &row.kind,
        invoice_currency: &row.invoice_currency,
        payment_currency: &row.payment_currency,
        // There were no links then.
        is_hidden: false,
    };
    let group_key = facets.key(None);
    let client_group_key = row.client_row.as_deref().map(|client| facets.key(Some(client)));
    Ok(payments::Model {
        tx_hash: hash("tx_hash", &row.tx_hash)?,
        block_hash: hash("block_hash", &row.block_hash)?,
        proxy: address("proxy", &row.proxy)?,
        token: option("token", row.token.as_deref())?,
        payee: address("payee", &row.payee)?,
        payer: option("payer", row.payer.as_deref())?,
        payer_eoa: option("payer_eoa", row.payer_eoa.as_deref())?,
        fee_address: option("fee_address", row.fee_address.as_deref())?,
        reference: columns::reference(&row.reference)?.0.to_vec(),
        id: row.id,
        platform_id: row.platform_id,
        client_row: row.client_row,
        request_row: row.request_row,
        request_id: row.request_id,
        network: row.network,
        position: row.position,
        counts_payments: row.counts_payments,
        block_number: row.block_number,
        log_index: row.log_index,
        units: row.units,
        event_units: row.event_units,
        fee_units: row.fee_units,
        credited: row.credited,
        fee_shortfall: row.fee_shortfall,
        kind: row.kind,
        invoice_currency: row.invoice_currency,
        payment_currency: row.payment_currency,
        merchant_reference: row.merchant_reference,
        paid_at: row.paid_at,
        created_at: row.created_at,
        reversed_at: row.reversed_at,
        reversal_reason: row.reversal_reason,
        is_told: row.is_told,
        schedule_id: row.schedule_id,
        rate: row.rate,
        rate_provider: row.rate_provider,
        further_fees: row.further_fees,
        is_quoted: row.is_quoted,
        group_key,
        client_group_key,
        is_hidden: false,
        payer_access: None,
    })
}
