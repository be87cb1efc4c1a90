//! Settled payments: appended once, searched often; one that leaves the chain stays and is marked.

use super::{Scope, Sealing, StoreError, columns, requests};
use crate::domain::{
    address::Address,
    ids::{ClientRowId, PaymentId, PlatformId, RequestRowId},
    ledger::{RequestStatus, SettlementUnits},
    network::Network,
    payment::{Observation, PaymentKind, ReversalReason, Settled},
    reference::PaymentReference,
    request::{Request, terms::CustomerInfo},
};
use alloy::primitives::{B256, U256};
use chrono::{DateTime, Utc};
use entities::{
    payment_parties, payment_parties::Column as Party, payments, payments::Column, requests as request_rows,
};
use sea_orm::{
    ActiveModelTrait, ColumnTrait, ConnectionTrait, EntityTrait, Order, QueryFilter, QueryOrder, QuerySelect,
    QueryTrait,
    sea_query::{Expr, ExprTrait, Func, OnConflict, Query, SelectStatement},
};
use std::collections::{BTreeSet, HashSet};

/// A payment to be recorded, with the request that it settles.
#[derive(Debug, Clone)]
pub struct SettledPayment<'a> {
    /// Fresh id.
    pub id: PaymentId,
    /// The request: owner, kind and currencies are taken from it.
    pub request: &'a Request,
    /// What the chain proved.
    pub settled: &'a Settled,
    /// Now.
    pub created_at: DateTime<Utc>,
}

/// A recorded payment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PaymentRecord {
    /// Row.
    pub id: PaymentId,
    /// Tenant.
    pub platform: PlatformId,
    /// Client ID of the request.
    pub client: Option<ClientRowId>,
    /// Row of the request.
    pub request: RequestRowId,
    /// Public id of the request.
    pub request_id: String,
    /// Network.
    pub network: Network,
    /// Transaction.
    pub tx_hash: B256,
    /// Position among all events of the transaction.
    pub position: u32,
    /// Whether the position counts payments alone, as it did once.
    pub counts_payments: bool,
    /// Height of the block.
    pub block_number: u64,
    /// Hash of the block.
    pub block_hash: B256,
    /// Index of the event in its block.
    pub log_index: u64,
    /// Contract that emitted the event.
    pub proxy: Address,
    /// Token; `None` for the native coin.
    pub token: Option<Address>,
    /// Receiver.
    pub payee: Address,
    /// Where the money came from.
    pub payer: Option<Address>,
    /// Account behind the payer.
    pub payer_eoa: Option<Address>,
    /// Token units that arrived.
    pub units: U256,
    /// Token units that the event names.
    pub event_units: U256,
    /// Token units of the fee.
    pub fee_units: U256,
    /// Receiver of the fee.
    pub fee_address: Option<Address>,
    /// How much of the request it settled.
    pub credited: SettlementUnits,
    /// How much of the fee that was handed out is missing.
    pub fee_shortfall: Option<SettlementUnits>,
    /// Kind.
    pub kind: PaymentKind,
    /// Currency id of the invoice.
    pub invoice_currency: String,
    /// Currency id of the payment.
    pub payment_currency: String,
    /// Merchant reference of the request.
    pub merchant_reference: Option<String>,
    /// Payment reference.
    pub reference: PaymentReference,
    /// Time of the block.
    pub paid_at: DateTime<Utc>,
    /// When it was recorded.
    pub created_at: DateTime<Utc>,
    /// When and why it was taken back, while it is.
    pub reversal: Option<Reversal>,
    /// Whether it was told as confirmed or partial, and that was not taken back.
    pub is_told: bool,
}

impl PaymentRecord {
    /// The payment without whose wallet paid. Source: decisions D32.
    #[must_use]
    pub fn without_persons(self) -> Self {
        Self {
            payer: None,
            payer_eoa: None,
            ..self
        }
    }
}

/// That a payment was taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reversal {
    /// When.
    pub at: DateTime<Utc>,
    /// Why.
    pub reason: ReversalReason,
}

/// What a search tells about the request of a payment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestSummary {
    /// Public id.
    pub request_id: String,
    /// Payment reference.
    pub reference: PaymentReference,
    /// State.
    pub status: RequestStatus,
    /// Merchant reference.
    pub merchant_reference: Option<String>,
    /// Customer.
    pub customer: Option<CustomerInfo>,
}

impl RequestSummary {
    /// The same without who buys. Source: decisions D32.
    #[must_use]
    pub fn without_persons(self) -> Self {
        Self { customer: None, ..self }
    }
}

/// What to search for; everything that is set must hold.
#[derive(Debug, Clone, Default)]
pub struct PaymentFilter {
    /// Transaction.
    pub tx_hash: Option<B256>,
    /// Canonical address of payer, account behind the payer or payee.
    pub wallet: Option<String>,
    /// Whether the wallet counts as payee alone.
    pub is_wallet_payee: bool,
    /// Payment reference.
    pub reference: Option<PaymentReference>,
    /// Public id of the request.
    pub request_id: Option<String>,
    /// Merchant reference.
    pub merchant_reference: Option<String>,
    /// Kind.
    pub kind: Option<PaymentKind>,
    /// Currency ids of the invoice, any of them.
    pub invoice_currencies: Option<Vec<String>>,
    /// Currency ids of the payment, any of them.
    pub payment_currencies: Option<Vec<String>>,
    /// Not paid before this time.
    pub from: Option<DateTime<Utc>>,
    /// Not paid after this time.
    pub to: Option<DateTime<Utc>>,
    /// Rows of a page.
    pub limit: u64,
    /// Rows to skip.
    pub offset: u64,
}

/// A page of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PaymentPage {
    /// Payments with their requests, newest first.
    pub rows: Vec<(PaymentRecord, RequestSummary)>,
    /// Number of matches, counted up to [`super::TOTAL_MAX`].
    pub total: u64,
    /// Whether there is a row behind this page.
    pub has_more: bool,
}

fn to_row(payment: &SettledPayment<'_>) -> Result<payments::Model, StoreError> {
    let SettledPayment { request, settled, .. } = payment;
    let observed = &settled.observed;
    Ok(payments::Model {
        id: payment.id.0.clone(),
        platform_id: request.origin.platform.0.clone(),
        client_row: request.origin.client.as_ref().map(|client| client.0.clone()),
        request_row: request.row.0.clone(),
        request_id: request.id.0.clone(),
        network: observed.network.id().to_owned(),
        tx_hash: columns::hash_text(&observed.tx_hash),
        position: columns::number("position", observed.position)?,
        counts_payments: false,
        block_number: columns::number("block_number", observed.block_number)?,
        block_hash: columns::hash_text(&observed.block_hash),
        log_index: columns::number("log_index", observed.log_index)?,
        proxy: observed.proxy.canonical(),
        token: observed.token.map(|token| token.canonical()),
        payee: observed.payee.canonical(),
        payer: settled.proven.payer.map(|payer| payer.canonical()),
        payer_eoa: settled.proven.payer_eoa.map(|payer| payer.canonical()),
        units: settled.proven.received_units.to_string(),
        event_units: observed.units.to_string(),
        fee_units: observed.fee_units.to_string(),
        fee_address: observed.fee_address.map(|address| address.canonical()),
        credited: settled.credited.to_string(),
        fee_shortfall: settled.fee_shortfall.map(|missing| missing.to_string()),
        kind: request.terms.kind.wire().to_owned(),
        invoice_currency: request.terms.invoice_currency.clone(),
        payment_currency: request.terms.payment_currency.clone(),
        merchant_reference: request.terms.merchant_reference.clone(),
        reference: columns::reference_text(&request.reference),
        paid_at: settled.at,
        created_at: payment.created_at,
        reversed_at: None,
        reversal_reason: None,
        is_told: false,
    })
}

fn from_row(row: payments::Model) -> Result<PaymentRecord, StoreError> {
    let shortfall = row.fee_shortfall.as_deref();
    let shortfall = shortfall.map(|missing| columns::units("fee_shortfall", missing));
    let reason = row.reversal_reason.as_deref();
    let reason = reason.map(|text| columns::known("reversal_reason", text, ReversalReason::from_wire));
    let reversal = row.reversed_at.zip(reason.transpose()?);
    Ok(PaymentRecord {
        id: PaymentId(row.id),
        platform: PlatformId(row.platform_id),
        client: row.client_row.map(ClientRowId),
        request: RequestRowId(row.request_row),
        request_id: row.request_id,
        network: columns::network(&row.network)?,
        tx_hash: columns::hash("tx_hash", &row.tx_hash)?,
        position: columns::number("position", row.position)?,
        counts_payments: row.counts_payments,
        block_number: columns::number("block_number", row.block_number)?,
        block_hash: columns::hash("block_hash", &row.block_hash)?,
        log_index: columns::number("log_index", row.log_index)?,
        proxy: columns::address("proxy", &row.proxy)?,
        token: columns::address_option("token", row.token.as_deref())?,
        payee: columns::address("payee", &row.payee)?,
        payer: columns::address_option("payer", row.payer.as_deref())?,
        payer_eoa: columns::address_option("payer_eoa", row.payer_eoa.as_deref())?,
        units: columns::units("units", &row.units)?,
        event_units: columns::units("event_units", &row.event_units)?,
        fee_units: columns::units("fee_units", &row.fee_units)?,
        fee_address: columns::address_option("fee_address", row.fee_address.as_deref())?,
        credited: columns::units("credited", &row.credited)?,
        fee_shortfall: shortfall.transpose()?,
        kind: columns::known("kind", &row.kind, PaymentKind::from_wire)?,
        invoice_currency: row.invoice_currency,
        payment_currency: row.payment_currency,
        merchant_reference: row.merchant_reference,
        reference: columns::reference(&row.reference)?,
        paid_at: row.paid_at,
        created_at: row.created_at,
        reversal: reversal.map(|(at, reason)| Reversal { at, reason }),
        is_told: row.is_told,
    })
}

fn summary(conn: &impl Sealing, row: request_rows::Model) -> Result<RequestSummary, StoreError> {
    let place = requests::customer_place(&row.platform_id, &row.id);
    let customer = row
        .customer
        .map(|value| requests::customer_from_json(conn, place, value));
    Ok(RequestSummary {
        request_id: row.request_id,
        reference: columns::reference(&row.reference)?,
        status: columns::known("status", &row.status, RequestStatus::from_wire)?,
        merchant_reference: row.merchant_reference,
        customer: customer.transpose()?,
    })
}

/// Records those payments whose events are not recorded yet, with two statements for a batch; returns their ids.
///
/// Credit a request only for a payment whose id is returned, in the same transaction.
pub async fn insert_new(
    conn: &impl ConnectionTrait,
    payments: &[SettledPayment<'_>],
) -> Result<HashSet<PaymentId>, StoreError> {
    let mut written = HashSet::new();
    for payments in payments.chunks(columns::ROWS_MAX) {
        let rows = payments.iter().map(to_row).collect::<Result<Vec<_>, _>>()?;
        let mut insertion =
            payments::Entity::insert_many(rows.iter().cloned().map(payments::ActiveModel::from)).into_query();
        insertion
            .on_conflict(
                OnConflict::columns([
                    Column::Network,
                    Column::TxHash,
                    Column::Position,
                    Column::CountsPayments,
                ])
                .do_nothing()
                .to_owned(),
            )
            .returning_col(Column::Id);
        let mut new_ids = HashSet::new();
        for row in conn.query_all(&insertion).await? {
            new_ids.insert(row.try_get::<String>("", "id")?);
        }
        let parties: Vec<_> = rows
            .iter()
            .filter(|row| new_ids.contains(&row.id))
            .flat_map(parties)
            .map(payment_parties::ActiveModel::from)
            .collect();
        if !parties.is_empty() {
            payment_parties::Entity::insert_many(parties)
                .exec_without_returning(conn)
                .await?;
        }
        written.extend(new_ids.into_iter().map(PaymentId));
    }
    Ok(written)
}

/// Payments of a network in blocks from one height to another, both included, whoever they belong to: for the
/// comparison with the chain.
pub async fn in_blocks(
    conn: &impl ConnectionTrait,
    network: Network,
    from: u64,
    to: u64,
) -> Result<Vec<PaymentRecord>, StoreError> {
    let from: i64 = columns::number("block_number", from)?;
    let to = i64::try_from(to).unwrap_or(i64::MAX);
    let rows = payments::Entity::find()
        .filter(Column::Network.eq(network.id()))
        .filter(Column::BlockNumber.between(from, to))
        .order_by_asc(Column::BlockNumber)
        .order_by_asc(Column::LogIndex)
        .all(conn)
        .await?;
    rows.into_iter().map(from_row).collect()
}

/// Heights and hashes of blocks with payments that count, from one height to another, both included, the newest first.
pub async fn blocks(
    conn: &impl ConnectionTrait,
    network: Network,
    (from, to): (u64, u64),
    limit: u64,
) -> Result<Vec<(u64, B256)>, StoreError> {
    let from: i64 = columns::number("block_number", from)?;
    let to: i64 = columns::number("block_number", to)?;
    let rows: Vec<(i64, String)> = payments::Entity::find()
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
    let block = |(number, hash): (i64, String)| {
        Ok((
            columns::number("block_number", number)?,
            columns::hash("block_hash", &hash)?,
        ))
    };
    rows.into_iter().map(block).collect()
}

/// Payments of transactions, in the order of their positions.
pub async fn of_transactions(
    conn: &impl ConnectionTrait,
    network: Network,
    tx_hashes: &[B256],
) -> Result<Vec<PaymentRecord>, StoreError> {
    let mut found = Vec::new();
    for tx_hashes in tx_hashes.chunks(columns::ROWS_MAX) {
        let rows = payments::Entity::find()
            .filter(Column::Network.eq(network.id()))
            .filter(Column::TxHash.is_in(tx_hashes.iter().map(columns::hash_text)))
            .order_by_asc(Column::Position)
            .all(conn)
            .await?;
        found.extend(rows);
    }
    found.into_iter().map(from_row).collect()
}

/// Puts a payment where the receipt of its transaction shows it.
pub async fn place(conn: &impl ConnectionTrait, id: &PaymentId, observed: &Observation) -> Result<(), StoreError> {
    let position: i32 = columns::number("position", observed.position)?;
    let block_number: i64 = columns::number("block_number", observed.block_number)?;
    let log_index: i64 = columns::number("log_index", observed.log_index)?;
    payments::Entity::update_many()
        .col_expr(Column::Position, Expr::value(position))
        .col_expr(Column::CountsPayments, Expr::value(false))
        .col_expr(Column::BlockNumber, Expr::value(block_number))
        .col_expr(Column::BlockHash, Expr::value(columns::hash_text(&observed.block_hash)))
        .col_expr(Column::LogIndex, Expr::value(log_index))
        .filter(Column::Id.eq(id.0.as_str()))
        .exec(conn)
        .await?;
    Ok(())
}

/// Marks a payment as taken back; returns it as it is then, or nothing when it is marked already.
pub async fn reverse(
    conn: &impl ConnectionTrait,
    id: &PaymentId,
    reason: ReversalReason,
    now: DateTime<Utc>,
) -> Result<Option<PaymentRecord>, StoreError> {
    let result = payments::Entity::update_many()
        .col_expr(Column::ReversedAt, Expr::value(now))
        .col_expr(Column::ReversalReason, Expr::value(reason.wire()))
        .filter(Column::Id.eq(id.as_str()))
        .filter(Column::ReversedAt.is_null())
        .exec(conn)
        .await?;
    if result.rows_affected == 0 {
        return Ok(None);
    }
    let row = payments::Entity::find()
        .filter(Column::Id.eq(id.as_str()))
        .one(conn)
        .await?;
    row.map(from_row).transpose()
}

/// Notes whether payments were told, or that what was told of them was taken back.
pub async fn set_told(conn: &impl ConnectionTrait, ids: &[PaymentId], is_told: bool) -> Result<(), StoreError> {
    for ids in ids.chunks(columns::ROWS_MAX) {
        payments::Entity::update_many()
            .col_expr(Column::IsTold, Expr::value(is_told))
            .filter(Column::Id.is_in(ids.iter().map(PaymentId::as_str)))
            .exec(conn)
            .await?;
    }
    Ok(())
}

/// Writes what the chain proves now of a payment that was taken back, and takes the mark away; returns the payment, or
/// nothing when it is not marked. It keeps its id, and what was told of it. Needs a transaction.
///
/// Credit a request again only after this returned the payment in the same transaction.
pub async fn reinstate(
    conn: &impl ConnectionTrait,
    payment: &SettledPayment<'_>,
) -> Result<Option<PaymentRecord>, StoreError> {
    overwrite(conn, payment, Column::ReversedAt.is_not_null()).await
}

/// Writes what the chain proves now of a payment that counts: the same money, somewhere else. It keeps its id, and what
/// was told of it. Needs a transaction.
pub async fn relocate(conn: &impl ConnectionTrait, payment: &SettledPayment<'_>) -> Result<(), StoreError> {
    overwrite(conn, payment, Column::ReversedAt.is_null()).await?;
    Ok(())
}

/// Replaces the facts of the row in this state, and its parties; returns it as it is then.
async fn overwrite(
    conn: &impl ConnectionTrait,
    payment: &SettledPayment<'_>,
    state: Expr,
) -> Result<Option<PaymentRecord>, StoreError> {
    let fresh = to_row(payment)?;
    let stored = payments::Entity::find()
        .filter(Column::Network.eq(fresh.network.as_str()))
        .filter(Column::TxHash.eq(fresh.tx_hash.as_str()))
        .filter(Column::Position.eq(fresh.position))
        .filter(Column::CountsPayments.eq(false))
        .filter(state.clone())
        .one(conn)
        .await?;
    let Some(stored) = stored else { return Ok(None) };
    let again = payments::Model {
        id: stored.id.clone(),
        created_at: stored.created_at,
        is_told: stored.is_told,
        ..fresh
    };
    payment_parties::Entity::delete_many()
        .filter(Party::PlatformId.eq(stored.platform_id.as_str()))
        .filter(Party::Wallet.is_in(parties(&stored).map(|party| party.wallet)))
        .filter(Party::PaidAt.eq(stored.paid_at))
        .filter(Party::PaymentId.eq(stored.id.as_str()))
        .exec(conn)
        .await?;
    let wallets = parties(&again).map(payment_parties::ActiveModel::from);
    payment_parties::Entity::insert_many(wallets)
        .exec_without_returning(conn)
        .await?;
    let result = payments::Entity::update_many()
        .set(payments::ActiveModel::from(again.clone()).reset_all())
        .filter(Column::Id.eq(stored.id.as_str()))
        .filter(state)
        .exec(conn)
        .await?;
    if result.rows_affected == 0 {
        return Ok(None);
    }
    from_row(again).map(Some)
}

/// One row for each distinct wallet of a payment.
fn parties(row: &payments::Model) -> impl Iterator<Item = payment_parties::Model> {
    let wallets: BTreeSet<String> = [Some(&row.payee), row.payer.as_ref(), row.payer_eoa.as_ref()]
        .into_iter()
        .flatten()
        .cloned()
        .collect();
    wallets.into_iter().map(|wallet| payment_parties::Model {
        platform_id: row.platform_id.clone(),
        wallet,
        paid_at: row.paid_at,
        payment_id: row.id.clone(),
    })
}

/// Payments of a request that count, oldest first.
pub async fn list_of_request(conn: &impl ConnectionTrait, request: &Request) -> Result<Vec<PaymentRecord>, StoreError> {
    let mut rows = payments::Entity::find()
        .filter(Column::PlatformId.eq(request.origin.platform.as_str()))
        .filter(Column::RequestId.eq(request.id.as_str()))
        .filter(Column::ReversedAt.is_null())
        .all(conn)
        .await?;
    // Sorted here: asked for an order, SQLite would walk all payments of the platform by time.
    rows.sort_by(|one, other| (one.paid_at, &one.id).cmp(&(other.paid_at, &other.id)));
    rows.into_iter().map(from_row).collect()
}

/// The largest payments of a request that count, at most `limit`, oldest first: of equal ones the newest. The one that
/// completed it is among them.
pub async fn largest_of_request(
    conn: &impl ConnectionTrait,
    request: &Request,
    limit: u64,
) -> Result<Vec<PaymentRecord>, StoreError> {
    let completing = request.ledger.tx_hash.as_ref().map(columns::hash_text);
    let is_completing = Expr::case(Column::TxHash.eq(completing.unwrap_or_default()), 0).finally(1);
    let mut rows = payments::Entity::find()
        .filter(Column::PlatformId.eq(request.origin.platform.as_str()))
        .filter(Column::RequestId.eq(request.id.as_str()))
        .filter(Column::ReversedAt.is_null())
        .order_by_asc(Expr::Case(Box::new(is_completing)))
        .order_by_desc(Func::char_length(Expr::col(Column::Credited)))
        .order_by_desc(Column::Credited)
        .order_by_desc(Column::Id)
        .limit(limit)
        .all(conn)
        .await?;
    rows.sort_by(|one, other| (one.paid_at, &one.id).cmp(&(other.paid_at, &other.id)));
    rows.into_iter().map(from_row).collect()
}

/// Searches the payments that a scope may see, newest first.
///
/// The page is found by ids alone, in the order of an index, and only its rows are loaded. A wallet is looked up among
/// the parties, never as payer-or-payee, whose cost grows with every payment of a busy wallet.
/// Source: rules E.2; rules E.5.
pub async fn search(conn: &impl Sealing, scope: &Scope, filter: &PaymentFilter) -> Result<PaymentPage, StoreError> {
    let (matching, newest_first) = matching(scope, filter);
    let mut page = matching.clone();
    for column in newest_first {
        page.order_by_expr(column, Order::Desc);
    }
    page.limit(filter.limit + 1).offset(filter.offset);
    let mut found = payments::Entity::find()
        .filter(Column::Id.in_subquery(page))
        .find_also_related(request_rows::Entity)
        .order_by_desc(Column::PaidAt)
        .order_by_desc(Column::Id)
        .all(conn)
        .await?;
    let total = match requests::known_total(found.len(), filter.limit + 1, filter.offset) {
        Some(total) => total,
        None => requests::count(conn, matching).await?,
    };
    let limit = usize::try_from(filter.limit).unwrap_or(usize::MAX);
    let has_more = found.len() > limit;
    found.truncate(limit);
    let rows = found
        .into_iter()
        .map(|(payment, request)| {
            let request = request.ok_or_else(|| columns::broken("request_row", &payment.request_row))?;
            Ok((from_row(payment)?, summary(conn, request)?))
        })
        .collect::<Result<_, StoreError>>()?;
    Ok(PaymentPage { rows, total, has_more })
}

/// Ids of all matches, and the expressions whose descending order puts the newest first.
///
/// What is most selective leads. A key picks its few payments first, by itself: beside a date or an order, SQLite would
/// rather walk all payments of the platform by time.
fn matching(scope: &Scope, filter: &PaymentFilter) -> (SelectStatement, [Expr; 2]) {
    let mut query = Query::select();
    if let Some(keyed) = keyed(scope, filter) {
        query
            .expr(of_payment(Column::Id))
            .from(payments::Entity)
            .and_where(of_payment(Column::Id).in_subquery(keyed));
        narrow(&mut query, scope, filter);
        between(&mut query, &of_payment(Column::PaidAt), filter);
        if let Some(wallet) = &filter.wallet {
            let party = of_wallet(scope, wallet)
                .expr(of_party(Party::PaymentId))
                .and_where(of_party(Party::PaidAt).eq(of_payment(Column::PaidAt)))
                .and_where(of_party(Party::PaymentId).eq(of_payment(Column::Id)))
                .to_owned();
            query.and_where(Expr::exists(party));
        }
        return (query, [of_payment(Column::PaidAt), of_payment(Column::Id)]);
    }
    let Some(wallet) = &filter.wallet else {
        query
            .expr(of_payment(Column::Id))
            .from(payments::Entity)
            .and_where(of_payment(Column::PlatformId).eq(scope.platform.as_str()));
        narrow(&mut query, scope, filter);
        between(&mut query, &of_payment(Column::PaidAt), filter);
        return (query, [of_payment(Column::PaidAt), of_payment(Column::Id)]);
    };
    let mut query = of_wallet(scope, wallet);
    query.expr(of_party(Party::PaymentId));
    between(&mut query, &of_party(Party::PaidAt), filter);
    if needs_payment(scope, filter) {
        query.inner_join(payments::Entity, of_payment(Column::Id).eq(of_party(Party::PaymentId)));
        narrow(&mut query, scope, filter);
    }
    (query, [of_party(Party::PaidAt), of_party(Party::PaymentId)])
}

/// Ids of the platform's payments with one of the keys that few payments share, when the filter names one.
fn keyed(scope: &Scope, filter: &PaymentFilter) -> Option<SelectStatement> {
    let (column, key) = keys(filter)
        .into_iter()
        .find_map(|(column, key)| Some((column, key?)))?;
    let query = Query::select()
        .expr(of_payment(Column::Id))
        .from(payments::Entity)
        .and_where(of_payment(Column::PlatformId).eq(scope.platform.as_str()))
        .and_where(of_payment(column).eq(key))
        .to_owned();
    Some(query)
}

/// The keys of a filter, the most selective first.
fn keys(filter: &PaymentFilter) -> [(Column, Option<String>); 4] {
    [
        (Column::TxHash, filter.tx_hash.as_ref().map(columns::hash_text)),
        (
            Column::Reference,
            filter.reference.as_ref().map(columns::reference_text),
        ),
        (Column::RequestId, filter.request_id.clone()),
        (Column::MerchantReference, filter.merchant_reference.clone()),
    ]
}

/// Rows of a wallet among the parties of the platform's payments.
fn of_wallet(scope: &Scope, wallet: &str) -> SelectStatement {
    Query::select()
        .from(payment_parties::Entity)
        .and_where(of_party(Party::PlatformId).eq(scope.platform.as_str()))
        .and_where(of_party(Party::Wallet).eq(wallet))
        .to_owned()
}

fn of_party(column: Party) -> Expr {
    Expr::col((payment_parties::Entity, column))
}

fn of_payment(column: Column) -> Expr {
    Expr::col((payments::Entity, column))
}

/// Whether something besides keys is asked that the table of parties does not know.
fn needs_payment(scope: &Scope, filter: &PaymentFilter) -> bool {
    scope.client.is_some()
        || filter.is_wallet_payee
        || filter.kind.is_some()
        || filter.invoice_currencies.is_some()
        || filter.payment_currencies.is_some()
}

/// Adds the conditions that columns of the payment decide.
fn narrow(query: &mut SelectStatement, scope: &Scope, filter: &PaymentFilter) {
    let others = [
        (Column::ClientRow, scope.client.as_ref().map(|client| client.0.clone())),
        (Column::Kind, filter.kind.map(|kind| kind.wire().to_owned())),
        (Column::Payee, filter.wallet.clone().filter(|_| filter.is_wallet_payee)),
    ];
    for (column, wanted) in keys(filter).into_iter().chain(others) {
        query.and_where_option(wanted.map(|wanted| of_payment(column).eq(wanted)));
    }
    let lists = [
        (Column::InvoiceCurrency, &filter.invoice_currencies),
        (Column::PaymentCurrency, &filter.payment_currencies),
    ];
    for (column, wanted) in lists {
        query.and_where_option(wanted.clone().map(|wanted| of_payment(column).is_in(wanted)));
    }
}

fn between(query: &mut SelectStatement, paid_at: &Expr, filter: &PaymentFilter) {
    query
        .and_where_option(filter.from.map(|from| paid_at.clone().gte(from)))
        .and_where_option(filter.to.map(|to| paid_at.clone().lte(to)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Db, plans};

    /// Steps of SQLite's plan for the page of a search.
    async fn plan(db: &Db, filter: &PaymentFilter) -> String {
        let scope = Scope {
            platform: PlatformId("platform".into()),
            client: None,
        };
        let (mut page, newest_first) = matching(&scope, filter);
        for column in newest_first {
            page.order_by_expr(column, Order::Desc);
        }
        plans::steps(db, page.limit(21)).await
    }

    #[tokio::test]
    async fn every_search_of_sqlite_reads_its_own_index() {
        plans::with_database(every_search_reads_its_own_index).await;
    }

    async fn every_search_reads_its_own_index(db: &Db) {
        let dated = PaymentFilter {
            from: Some(DateTime::UNIX_EPOCH),
            to: Some(DateTime::UNIX_EPOCH),
            kind: Some(PaymentKind::Direct),
            wallet: Some("0x".into()),
            ..Default::default()
        };
        let by_tx_hash = PaymentFilter {
            tx_hash: Some(B256::ZERO),
            ..dated.clone()
        };
        let by_reference = PaymentFilter {
            reference: Some(PaymentReference([0; 8])),
            ..dated.clone()
        };
        let by_request = PaymentFilter {
            request_id: Some("01".into()),
            ..dated.clone()
        };
        let by_merchant = PaymentFilter {
            merchant_reference: Some("order".into()),
            ..dated.clone()
        };
        let of_platform = PaymentFilter {
            wallet: None,
            ..dated.clone()
        };
        for (filter, wanted) in [
            (by_tx_hash, "payments_tx_hash_idx (platform_id=? AND tx_hash=?)"),
            (by_reference, "payments_reference_idx (platform_id=? AND reference=?)"),
            (by_request, "payments_request_id_idx (platform_id=? AND request_id=?)"),
            (
                by_merchant,
                "payments_merchant_reference_idx (platform_id=? AND merchant_reference=?)",
            ),
            (
                dated,
                "payment_parties_1 (platform_id=? AND wallet=? AND paid_at>? AND paid_at<?)",
            ),
            (
                of_platform,
                "payments_paid_idx (platform_id=? AND paid_at>? AND paid_at<?)",
            ),
        ] {
            let steps = plan(db, &filter).await;
            assert!(steps.contains(wanted), "{wanted}:\n{steps}");
            assert!(!steps.contains("SCAN payment"), "{steps}");
        }
    }
}
