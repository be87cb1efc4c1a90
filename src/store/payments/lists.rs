//! Payments of blocks, transactions, requests and recurring payments.

use super::record::from_row;
use crate::{
    domain::{
        block_range::BlockRange,
        ids::{PlatformId, ScheduleId},
        network::Network,
        orchestrator_fees::OrchestratorFees,
        payment_record::PaymentRecord,
        request::Request,
    },
    store::{StoreError, columns},
};
use alloy::primitives::B256;
use chrono::{DateTime, Utc};
use entities::{payments, payments::Column};
use sea_orm::{
    ColumnTrait, Condition, ConnectionTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect, Select,
    sea_query::{Expr, ExprTrait, Func},
};

/// A row that cannot be read.
#[derive(Debug)]
pub struct UnreadablePayment {
    /// Its id.
    pub id: String,
    /// Public id of its request.
    pub request_id: String,
    /// Transaction and position of its event, as far as they can be read.
    pub place: Option<(B256, u32)>,
    /// What is wrong with it.
    pub error: StoreError,
}

/// Payments, and the unreadable rows separately.
pub type ReadablePayments = (Vec<PaymentRecord>, Vec<UnreadablePayment>);

/// Payments of all platforms in the blocks of a range, for the comparison with the chain.
pub async fn in_blocks(
    conn: &impl ConnectionTrait,
    network: Network,
    range: BlockRange,
) -> Result<ReadablePayments, StoreError> {
    let from: i64 = columns::number("block_number", range.from)?;
    let to = i64::try_from(range.to).unwrap_or(i64::MAX);
    let mut rows = payments::Entity::find()
        .filter(Column::Network.eq(network.id()))
        .filter(Column::BlockNumber.between(from, to))
        .all(conn)
        .await?;
    rows.sort_by_key(|row| (row.block_number, row.log_index));
    Ok(readable(rows))
}

/// Orchestrator fees that a payment paid.
#[derive(Debug, Clone)]
pub struct PaidOrchestratorFees {
    /// Block of the payment.
    pub block_number: u64,
    /// Transaction of the payment.
    pub tx_hash: B256,
    /// Units of the fees.
    pub fees: OrchestratorFees,
}

/// The orchestrator fees of the payments of a request that paid such fees and are not reversed.
pub async fn fees_of_request(
    conn: &impl ConnectionTrait,
    request: &Request,
) -> Result<Vec<PaidOrchestratorFees>, StoreError> {
    let rows: Vec<(i64, Vec<u8>, Option<String>)> = counting(request)
        .select_only()
        .columns([Column::BlockNumber, Column::TxHash, Column::OrchestratorFees])
        .filter(Column::OrchestratorFees.is_not_null())
        .into_tuple()
        .all(conn)
        .await?;
    let fees = rows.into_iter().map(|(number, tx_hash, fees)| {
        Ok(PaidOrchestratorFees {
            block_number: columns::number("block_number", number)?,
            tx_hash: columns::hash_of("tx_hash", &tx_hash)?,
            fees: columns::orchestrator_fees(fees.as_deref())?,
        })
    });
    fees.collect()
}

/// Heights and hashes of the blocks of a range with payments that are not reversed, the newest first.
pub async fn blocks(
    conn: &impl ConnectionTrait,
    network: Network,
    range: BlockRange,
    limit: u64,
) -> Result<Vec<(u64, B256)>, StoreError> {
    let from: i64 = columns::number("block_number", range.from)?;
    let to: i64 = columns::number("block_number", range.to)?;
    let found: Vec<(i64, Vec<u8>)> = payments::Entity::find()
        .select_only()
        .column(Column::BlockNumber)
        .column(Column::BlockHash)
        .distinct()
        .filter(Column::Network.eq(network.id()))
        .filter(Column::BlockNumber.between(from, to))
        .filter(Column::ReversedAt.is_null())
        .order_by_desc(Column::BlockNumber)
        .order_by_asc(Column::BlockHash)
        .limit(limit)
        .into_tuple()
        .all(conn)
        .await?;
    let blocks = found.into_iter().map(|(number, hash)| {
        let number = columns::number("block_number", number)?;
        Ok((number, columns::hash_of("block_hash", &hash)?))
    });
    blocks.collect()
}

/// Payments of transactions, in the order of their positions.
pub async fn of_transactions(
    conn: &impl ConnectionTrait,
    network: Network,
    tx_hashes: &[B256],
) -> Result<Vec<PaymentRecord>, StoreError> {
    records(rows_of_transactions(conn, network, tx_hashes).await?)
}

/// Payments of transactions, in the order of their positions; unreadable rows are returned separately instead of an
/// error.
pub async fn readable_of_transactions(
    conn: &impl ConnectionTrait,
    network: Network,
    tx_hashes: &[B256],
) -> Result<ReadablePayments, StoreError> {
    Ok(readable(rows_of_transactions(conn, network, tx_hashes).await?))
}

async fn rows_of_transactions(
    conn: &impl ConnectionTrait,
    network: Network,
    tx_hashes: &[B256],
) -> Result<Vec<payments::Model>, StoreError> {
    let mut found = Vec::new();
    for tx_hashes in tx_hashes.chunks(columns::ROWS_MAX) {
        let mut rows = payments::Entity::find()
            .filter(Column::Network.eq(network.id()))
            .filter(Column::TxHash.is_in(tx_hashes.iter().map(|hash| hash.to_vec())))
            .all(conn)
            .await?;
        rows.sort_by_key(|row| row.position);
        found.extend(rows);
    }
    Ok(found)
}

/// Payments of a request that are not reversed, oldest first.
pub async fn list_of_request(conn: &impl ConnectionTrait, request: &Request) -> Result<Vec<PaymentRecord>, StoreError> {
    oldest_first(counting(request).all(conn).await?)
}

/// Counts the payments of a request that are not reversed.
pub async fn count_of_request(conn: &impl ConnectionTrait, request: &Request) -> Result<u64, StoreError> {
    let count = counting(request)
        .select_only()
        .column_as(Column::Id.count(), "payments")
        .into_tuple::<i64>()
        .one(conn)
        .await?;
    columns::number("payments", count.unwrap_or_default())
}

/// The largest payments of a recurring payment that are not reversed, at most `limit`, oldest first; among equal
/// amounts, the newest are chosen.
pub async fn largest_of_schedule(
    conn: &impl ConnectionTrait,
    platform: &PlatformId,
    schedule: &ScheduleId,
    limit: u64,
) -> Result<Vec<PaymentRecord>, StoreError> {
    let of_schedule = payments::Entity::find()
        .filter(Column::PlatformId.eq(platform.as_str()))
        .filter(Column::ScheduleId.eq(schedule.as_str()))
        .filter(Column::ReversedAt.is_null());
    oldest_first(by_size(of_schedule).limit(limit).all(conn).await?)
}

/// Where the next page of a list of payments by time begins: after the payment with this time and id.
pub type PaidBefore = (DateTime<Utc>, String);

/// Payments since a time whose payer is known, but of which it is unknown whether the payer was allowed to pay, newest
/// first. Also returns where the next page begins, or `None` at the end of the list. Unreadable rows are left out.
pub async fn of_unknown_access(
    conn: &impl ConnectionTrait,
    since: DateTime<Utc>,
    before: Option<&PaidBefore>,
    limit: u64,
) -> Result<(Vec<PaymentRecord>, Option<PaidBefore>), StoreError> {
    let before = before.map(|(paid_at, id)| {
        let same_time = Column::PaidAt.eq(*paid_at).and(Column::Id.lt(id));
        Condition::any().add(Column::PaidAt.lt(*paid_at)).add(same_time)
    });
    let rows = payments::Entity::find()
        // The value is a literal and not a parameter, so that the database can use the partial index with this
        // condition.
        .filter(Expr::col(Column::PayerAccess).eq(Expr::cust("'unknown'")))
        .filter(Column::Payer.is_not_null())
        .filter(Column::ReversedAt.is_null())
        .filter(Column::PaidAt.gte(since))
        .filter(before.unwrap_or_else(Condition::all))
        .order_by_desc(Column::PaidAt)
        .order_by_desc(Column::Id)
        .limit(limit)
        .all(conn)
        .await?;
    let is_full = u64::try_from(rows.len()).is_ok_and(|count| count == limit);
    let last = rows.last().filter(|_| is_full).map(|row| (row.paid_at, row.id.clone()));
    let (payments, _) = readable(rows);
    Ok((payments, last))
}

/// A payment of a request in one of the given transactions, unless it is reversed.
pub async fn find_in_transactions(
    conn: &impl ConnectionTrait,
    request: &Request,
    tx_hashes: &[B256],
) -> Result<Option<PaymentRecord>, StoreError> {
    let hashes = tx_hashes.iter().map(|hash| hash.to_vec());
    let rows = counting(request).filter(Column::TxHash.is_in(hashes)).all(conn).await?;
    let first = rows.into_iter().min_by(|one, other| one.id.cmp(&other.id));
    first.map(from_row).transpose()
}

/// The largest payments of a request that are not reversed, at most `limit`, oldest first; among equal amounts, the
/// newest are chosen. The payment that completed the request is always included.
pub async fn largest_of_request(
    conn: &impl ConnectionTrait,
    request: &Request,
    limit: u64,
) -> Result<Vec<PaymentRecord>, StoreError> {
    let completing = request.ledger.tx_hash.unwrap_or_default();
    let is_completing = Expr::case(Column::TxHash.eq(completing.to_vec()), 0).finally(1);
    let completing_first = counting(request).order_by_asc(Expr::Case(Box::new(is_completing)));
    oldest_first(by_size(completing_first).limit(limit).all(conn).await?)
}

/// Payments of a request that are not reversed.
fn counting(request: &Request) -> Select<payments::Entity> {
    payments::Entity::find()
        .filter(Column::PlatformId.eq(request.origin.platform.as_str()))
        .filter(Column::RequestId.eq(request.id.as_str()))
        .filter(Column::ReversedAt.is_null())
}

/// The largest payments first, and among equal amounts the newest first.
fn by_size(payments: Select<payments::Entity>) -> Select<payments::Entity> {
    payments
        .order_by_desc(Expr::from(Func::char_length(Expr::col(Column::Credited))))
        .order_by_desc(Column::Credited)
        .order_by_desc(Column::Id)
}

/// The rows are sorted here: with an ORDER BY, SQLite would read more than the matching rows.
fn oldest_first(mut rows: Vec<payments::Model>) -> Result<Vec<PaymentRecord>, StoreError> {
    rows.sort_by(|one, other| (one.paid_at, &one.id).cmp(&(other.paid_at, &other.id)));
    records(rows)
}

fn readable(rows: Vec<payments::Model>) -> ReadablePayments {
    let (mut payments, mut unreadable) = (Vec::new(), Vec::new());
    for row in rows {
        let (id, request_id) = (row.id.clone(), row.request_id.clone());
        let tx_hash = columns::hash_of("tx_hash", &row.tx_hash).ok();
        let place = tx_hash.zip(u32::try_from(row.position).ok());
        match from_row(row) {
            Ok(payment) => payments.push(payment),
            Err(error) => unreadable.push(UnreadablePayment {
                id,
                request_id,
                place,
                error,
            }),
        }
    }
    (payments, unreadable)
}

fn records(rows: Vec<payments::Model>) -> Result<Vec<PaymentRecord>, StoreError> {
    rows.into_iter().map(from_row).collect()
}
