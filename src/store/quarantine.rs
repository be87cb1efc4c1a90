//! Unexpected payments and blocks, with one row for each. When a payment or block is seen again, the counter of its row
//! increases. When the block is read again and nothing is unexpected, the row is settled.

use super::{
    StoreError, columns,
    requests::{count, known_total},
};
use crate::domain::{
    block_range::BlockRange,
    ids::{PlatformId, QuarantineId, RequestRowId},
    network::Network,
    oddity::{AmountAtStake, ConcernedRequest, OddReason, Oddity, QuarantineState},
    request::Request,
};
use alloy::primitives::{B256, U256};
use chrono::{DateTime, Utc};
use entities::{
    chain_quarantine::{ActiveModel, Column, Entity, Model},
    requests,
};
use sea_orm::{
    ColumnTrait, Condition, ConnectionTrait, EntityTrait, Order, QueryFilter, QueryOrder, QuerySelect, QueryTrait,
    sea_query::{Expr, ExprTrait, Func, NullOrdering, OnConflict, Query},
};
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// Maximum characters of a stored detail or note.
const TEXT_MAX: usize = 2_000;

/// A quarantined payment or block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuarantineEntry {
    /// Row.
    pub id: QuarantineId,
    /// The reason for the quarantine.
    pub oddity: Oddity,
    /// State.
    pub state: QuarantineState,
    /// How often the payment or block was seen.
    pub attempts: u32,
    /// When the payment or block was first seen.
    pub first_seen: DateTime<Utc>,
    /// When the payment or block was last seen.
    pub last_seen: DateTime<Utc>,
    /// When the row was settled, accepted or rejected.
    pub settled_at: Option<DateTime<Utc>>,
    /// Note of the operator.
    pub note: Option<String>,
}

fn from_row(row: Model) -> Result<QuarantineEntry, StoreError> {
    let state = columns::known("state", &row.state, QuarantineState::from_wire)?;
    let units = row.units.map(|units| columns::units("units", &units)).transpose()?;
    let settlement = row.settlement_units.as_deref();
    let settlement = settlement.map(|units| columns::units("settlement_units", units));
    let stake = units
        .zip(settlement.transpose()?)
        .map(|(units, settlement)| AmountAtStake {
            units,
            settlement,
            is_minor: state == QuarantineState::Minor,
        });
    let position = row.position.map(|position| columns::number("position", position));
    let concerned = row
        .platform_id
        .zip(row.request_row)
        .map(|(platform, request)| ConcernedRequest {
            platform: PlatformId(platform),
            request: RequestRowId(request),
            stake,
        });
    Ok(QuarantineEntry {
        id: QuarantineId(row.id),
        oddity: Oddity {
            network: columns::network(&row.network)?,
            block_number: columns::number("block_number", row.block_number)?,
            tx_hash: row.tx_hash.map(|hash| columns::hash("tx_hash", &hash)).transpose()?,
            position: position.transpose()?,
            reason: columns::known("reason", &row.reason, OddReason::from_wire)?,
            detail: row.detail,
            concerned,
        },
        state,
        attempts: columns::number("attempts", row.attempts)?,
        first_seen: row.first_seen,
        last_seen: row.last_seen,
        settled_at: row.settled_at,
        note: row.note,
    })
}

fn place(odd: &Oddity) -> String {
    let tx_hash = odd.tx_hash.as_ref().map(columns::hash_text).unwrap_or_default();
    match odd.position {
        Some(position) => format!("{tx_hash}:{position}"),
        None => tx_hash,
    }
}

fn clipped(text: &str) -> String {
    text.chars().take(TEXT_MAX).collect()
}

/// Quarantines a payment or block. If a row for it exists, its counter increases, and the row is reopened unless the
/// operator has decided it.
pub async fn put(
    conn: &impl ConnectionTrait,
    odd: &Oddity,
    id: QuarantineId,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let state = odd.first_state();
    let row = Model {
        id: id.0,
        network: odd.network.id().to_owned(),
        block_number: columns::number("block_number", odd.block_number)?,
        tx_hash: odd.tx_hash.as_ref().map(columns::hash_text),
        position: odd
            .position
            .map(|position| columns::number("position", position))
            .transpose()?,
        place: place(odd),
        reason: odd.reason.wire().to_owned(),
        detail: clipped(&odd.detail),
        platform_id: odd.concerned.as_ref().map(|concerned| concerned.platform.0.clone()),
        request_row: odd.concerned.as_ref().map(|concerned| concerned.request.0.clone()),
        state: state.wire().to_owned(),
        attempts: 1,
        first_seen: now,
        last_seen: now,
        settled_at: (!state.is_open()).then_some(now),
        note: None,
        units: odd.stake().map(|stake| stake.units.to_string()),
        settlement_units: odd.stake().map(|stake| stake.settlement.to_string()),
    };
    let stored = |column: Column| Expr::col((Entity, column));
    let is_decided = || {
        stored(Column::State).is_in([QuarantineState::Accepted, QuarantineState::Rejected].map(QuarantineState::wire))
    };
    let state = Expr::case(is_decided(), stored(Column::State)).finally(Expr::col(("excluded", Column::State)));
    let settled_at =
        Expr::case(is_decided(), stored(Column::SettledAt)).finally(Expr::col(("excluded", Column::SettledAt)));
    let again = OnConflict::columns([Column::Network, Column::BlockNumber, Column::Reason, Column::Place])
        .update_columns([
            Column::Detail,
            Column::LastSeen,
            Column::PlatformId,
            Column::RequestRow,
            Column::Units,
            Column::SettlementUnits,
        ])
        .value(Column::Attempts, stored(Column::Attempts).add(1))
        .value(Column::State, state)
        .value(Column::SettledAt, settled_at)
        .to_owned();
    Entity::insert(ActiveModel::from(row))
        .on_conflict(again)
        .exec_without_returning(conn)
        .await?;
    Ok(())
}

/// Filter of the rows; a row must match every condition that is set.
#[derive(Debug, Clone, Default)]
pub struct QuarantineFilter {
    /// Network.
    pub network: Option<Network>,
    /// Row of the request concerned.
    pub request: Option<RequestRowId>,
    /// Transaction.
    pub tx_hash: Option<B256>,
    /// Why.
    pub reason: Option<OddReason>,
    /// Minimum amount that arrived, in units of the payment currency.
    pub min_units: Option<U256>,
    /// Currency ids: the invoice currency of the request, and a list of payment currencies. The request must have this
    /// invoice currency and one of these payment currencies.
    pub currencies: Option<(String, Vec<String>)>,
    /// States of the rows; a row must be in one of them. Empty for any state.
    pub states: Vec<QuarantineState>,
}

impl QuarantineFilter {
    fn condition(&self) -> Condition {
        let states = (!self.states.is_empty()).then_some(&self.states);
        Condition::all()
            .add_option(self.network.map(|network| Column::Network.eq(network.id())))
            .add_option(self.request.as_ref().map(|row| Column::RequestRow.eq(row.as_str())))
            .add_option(self.tx_hash.map(|hash| Column::TxHash.eq(columns::hash_text(&hash))))
            .add_option(self.reason.map(|reason| Column::Reason.eq(reason.wire())))
            .add_option(self.min_units.map(at_least))
            .add_option(
                self.currencies
                    .as_ref()
                    .map(|(invoice, payments)| in_currencies(invoice, payments)),
            )
            .add_option(states.map(|states| Column::State.is_in(states.iter().map(|state| state.wire()))))
    }
}

fn in_currencies(invoice: &str, payments: &[String]) -> Expr {
    let of_request = |column: requests::Column| Expr::col((requests::Entity, column));
    let concerned = Query::select()
        .expr(Expr::val(1))
        .from(requests::Entity)
        .and_where(of_request(requests::Column::PlatformId).equals((Entity, Column::PlatformId)))
        .and_where(of_request(requests::Column::Id).equals((Entity, Column::RequestRow)))
        .and_where(of_request(requests::Column::InvoiceCurrency).eq(invoice))
        .and_where(of_request(requests::Column::PaymentCurrency).is_in(payments.iter().map(String::as_str)))
        .to_owned();
    Expr::exists(concerned)
}

/// Number of digits of the amount that arrived. Amounts are texts without leading zeros: the one with more digits is
/// larger, and only amounts with equally many digits are compared as texts.
fn digits() -> Expr {
    Func::char_length(Expr::col(Column::Units)).into()
}

fn at_least(least: U256) -> Condition {
    let text = least.to_string();
    let length = i32::try_from(text.len()).unwrap_or(i32::MAX);
    let as_long = Condition::all().add(digits().eq(length)).add(Column::Units.gte(text));
    Condition::any().add(digits().gt(length)).add(as_long)
}

/// Quarantined rows older than `after`, newest first, at most `limit`.
pub async fn list(
    conn: &impl ConnectionTrait,
    filter: &QuarantineFilter,
    after: Option<&QuarantineId>,
    limit: u64,
) -> Result<Vec<QuarantineEntry>, StoreError> {
    let rows = Entity::find()
        .filter(filter.condition())
        .apply_if(after, |query, after| query.filter(Column::Id.lt(after.as_str())))
        .order_by_desc(Column::Id)
        .limit(limit)
        .all(conn)
        .await?;
    rows.into_iter().map(from_row).collect()
}

/// One row.
pub async fn get(conn: &impl ConnectionTrait, id: &QuarantineId) -> Result<Option<QuarantineEntry>, StoreError> {
    let row = Entity::find().filter(Column::Id.eq(id.as_str())).one(conn).await?;
    row.map(from_row).transpose()
}

/// Quarantined payments of a request, at most `limit`, and their total. Undecided payments come first, then rejected
/// ones; within each, the largest amount that arrived comes first.
pub async fn list_of_request(
    conn: &impl ConnectionTrait,
    request: &Request,
    limit: u64,
) -> Result<(Vec<QuarantineEntry>, u64), StoreError> {
    let shown = [
        QuarantineState::Open,
        QuarantineState::Retrying,
        QuarantineState::Minor,
        QuarantineState::Rejected,
    ];
    let concerning = Entity::find()
        .filter(Column::PlatformId.eq(request.origin.platform.as_str()))
        .filter(Column::RequestRow.eq(request.row.as_str()))
        .filter(Column::State.is_in(shown.map(QuarantineState::wire)))
        .filter(Column::TxHash.is_not_null());
    let is_rejected = Expr::case(Column::State.eq(QuarantineState::Rejected.wire()), 1).finally(0);
    let rows = concerning
        .clone()
        .order_by_asc(Expr::Case(Box::new(is_rejected)))
        .order_by_with_nulls(digits(), Order::Desc, NullOrdering::Last)
        .order_by_with_nulls(Column::Units, Order::Desc, NullOrdering::Last)
        .order_by_asc(Column::Id)
        .limit(limit)
        .all(conn)
        .await?;
    let total = match known_total(rows.len(), limit, 0) {
        Some(total) => total,
        None => count(conn, concerning.select_only().column(Column::Id).into_query()).await?,
    };
    let rows = rows.into_iter().map(from_row).collect::<Result<_, _>>()?;
    Ok((rows, total))
}

/// Rejects all undecided rows that match; returns how many there were.
pub async fn reject_all(
    conn: &impl ConnectionTrait,
    filter: &QuarantineFilter,
    note: Option<&str>,
    now: DateTime<Utc>,
) -> Result<u64, StoreError> {
    let undecided = [QuarantineState::Open, QuarantineState::Retrying, QuarantineState::Minor];
    let mut update = Entity::update_many()
        .col_expr(Column::State, Expr::value(QuarantineState::Rejected.wire()))
        .col_expr(Column::SettledAt, Expr::value(now));
    if let Some(note) = note {
        update = update.col_expr(Column::Note, Expr::value(clipped(note)));
    }
    let result = update
        .filter(filter.condition())
        .filter(Column::State.is_in(undecided.map(QuarantineState::wire)))
        .exec(conn)
        .await?;
    Ok(result.rows_affected)
}

/// Writes a verdict if the state is still the state that the verdict was based on; returns whether it did. An absent
/// note leaves the existing note.
pub async fn set_state(
    conn: &impl ConnectionTrait,
    quarantined: &QuarantineEntry,
    state: QuarantineState,
    note: Option<&str>,
    now: DateTime<Utc>,
) -> Result<bool, StoreError> {
    let settled_at = (!state.is_open()).then_some(now);
    let mut update = Entity::update_many()
        .col_expr(Column::State, Expr::value(state.wire()))
        .col_expr(Column::SettledAt, Expr::value(settled_at));
    if let Some(note) = note {
        update = update.col_expr(Column::Note, Expr::value(clipped(note)));
    }
    let result = update
        .filter(Column::Id.eq(quarantined.id.as_str()))
        .filter(Column::State.eq(quarantined.state.wire()))
        .exec(conn)
        .await?;
    Ok(result.rows_affected == 1)
}

/// How many rows are open, by network; a network without open rows is missing from the result.
pub async fn count_open(conn: &impl ConnectionTrait) -> Result<BTreeMap<Network, u64>, StoreError> {
    let counted: Vec<(String, i64)> = Entity::find()
        .select_only()
        .column(Column::Network)
        .column_as(Column::Id.count(), "waiting")
        .filter(is_open())
        .group_by(Column::Network)
        .into_tuple()
        .all(conn)
        .await?;
    counted
        .into_iter()
        .map(|(network, waiting)| Ok((columns::network(&network)?, columns::number("waiting", waiting)?)))
        .collect()
}

fn is_open() -> Condition {
    Condition::all().add(
        Column::State.is_in(
            QuarantineState::ALL
                .into_iter()
                .filter(|state| state.is_open())
                .map(QuarantineState::wire),
        ),
    )
}

/// Heights within a range of blocks that have undecided rows.
pub async fn open_heights(
    conn: &impl ConnectionTrait,
    network: Network,
    range: BlockRange,
) -> Result<BTreeSet<u64>, StoreError> {
    let from: i64 = columns::number("block_number", range.from)?;
    let to: i64 = columns::number("block_number", range.to)?;
    let heights: Vec<i64> = Entity::find()
        .select_only()
        .column(Column::BlockNumber)
        .distinct()
        .filter(Column::Network.eq(network.id()))
        .filter(Column::BlockNumber.between(from, to))
        .filter(is_open())
        .into_tuple()
        .all(conn)
        .await?;
    let heights = heights.into_iter();
    heights.map(|height| columns::number("block_number", height)).collect()
}

/// Settles the undecided rows of blocks that were read again, except rows of blocks that could not be judged this time.
/// Call this before [`put`] in the same transaction: `put` reopens the rows that are still unexpected.
pub async fn settle_blocks(
    conn: &impl ConnectionTrait,
    network: Network,
    range: BlockRange,
    except: &[u64],
    now: DateTime<Utc>,
) -> Result<u64, StoreError> {
    let from: i64 = columns::number("block_number", range.from)?;
    let to: i64 = columns::number("block_number", range.to)?;
    let except = except.iter().map(|number| columns::number("block_number", *number));
    let except = except.collect::<Result<Vec<i64>, _>>()?;
    let mut update = Entity::update_many()
        .col_expr(Column::State, Expr::value(QuarantineState::Settled.wire()))
        .col_expr(Column::SettledAt, Expr::value(now))
        .filter(Column::Network.eq(network.id()))
        .filter(Column::BlockNumber.between(from, to))
        // A payment that left the chain after its payout is in no block. So reading the block again proves nothing
        // about it, and its row stays open.
        .filter(Column::Reason.ne(OddReason::PaidOut.wire()))
        .filter(is_open());
    if !except.is_empty() {
        update = update.filter(Column::BlockNumber.is_not_in(except));
    }
    Ok(update.exec(conn).await?.rows_affected)
}

/// Transaction and position of the quarantined payments in these transactions that the operator accepted.
pub async fn accepted(
    conn: &impl ConnectionTrait,
    network: Network,
    tx_hashes: &[B256],
) -> Result<HashSet<(B256, u32)>, StoreError> {
    let mut places = HashSet::new();
    for tx_hashes in tx_hashes.chunks(columns::ROWS_MAX) {
        let rows = Entity::find()
            .filter(Column::Network.eq(network.id()))
            .filter(Column::TxHash.is_in(tx_hashes.iter().map(columns::hash_text)))
            .filter(Column::State.eq(QuarantineState::Accepted.wire()))
            .all(conn)
            .await?;
        for row in rows {
            let odd = from_row(row)?.oddity;
            places.extend(odd.tx_hash.zip(odd.position));
        }
    }
    Ok(places)
}

/// Deletes rows that were settled or minor before `cutoff`, at most `limit`; returns how many. Decisions of the
/// operator stay: they apply when the block is read again.
pub async fn forget(conn: &impl ConnectionTrait, cutoff: DateTime<Utc>, limit: u64) -> Result<u64, StoreError> {
    let over = [QuarantineState::Settled, QuarantineState::Minor].map(QuarantineState::wire);
    let over = Condition::all()
        .add(Column::State.is_in(over))
        .add(Column::SettledAt.lt(cutoff));
    columns::delete_oldest::<Entity>(conn, Column::Id, Column::SettledAt, over, limit).await
}
