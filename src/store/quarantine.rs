//! What is odd about payments and blocks, one row for each thing: counted when it is seen again, settled when its block
//! was read again and it was not.

use super::{
    StoreError, columns,
    requests::{count, known_total},
};
use crate::domain::{
    ids::{PlatformId, QuarantineId, RequestRowId},
    network::Network,
    oddity::{Concerned, OddReason, Oddity, QuarantineState, Stake},
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

/// Most characters of a detail or note that are kept.
const TEXT_MAX: usize = 2_000;

/// Something that was set aside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quarantined {
    /// Row.
    pub id: QuarantineId,
    /// What is odd.
    pub oddity: Oddity,
    /// What became of it.
    pub state: QuarantineState,
    /// How often it was seen.
    pub attempts: u32,
    /// When it was seen first.
    pub first_seen: DateTime<Utc>,
    /// When it was seen last.
    pub last_seen: DateTime<Utc>,
    /// When it was over: settled, accepted or rejected.
    pub settled_at: Option<DateTime<Utc>>,
    /// What the operator noted.
    pub note: Option<String>,
}

fn from_row(row: Model) -> Result<Quarantined, StoreError> {
    let state = columns::known("state", &row.state, QuarantineState::from_wire)?;
    let units = row.units.map(|units| columns::units("units", &units)).transpose()?;
    let settlement = row.settlement_units.as_deref();
    let settlement = settlement.map(|units| columns::units("settlement_units", units));
    let stake = units.zip(settlement.transpose()?).map(|(units, settlement)| Stake {
        units,
        settlement,
        is_minor: state == QuarantineState::Minor,
    });
    let position = row.position.map(|position| columns::number("position", position));
    let concerned = row
        .platform_id
        .zip(row.request_row)
        .map(|(platform, request)| Concerned {
            platform: PlatformId(platform),
            request: RequestRowId(request),
            stake,
        });
    Ok(Quarantined {
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

/// Sets something aside; what is there already is counted, and opened again unless the operator has decided about it.
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

/// What to look for; everything that is set must hold.
#[derive(Debug, Clone, Default)]
pub struct QuarantineFilter {
    /// Network.
    pub network: Option<Network>,
    /// Row of the request that it concerns.
    pub request: Option<RequestRowId>,
    /// Transaction.
    pub tx_hash: Option<B256>,
    /// Why.
    pub reason: Option<OddReason>,
    /// The least that arrived, in units of the payment currency.
    pub min_units: Option<U256>,
    /// Of requests in the first currency that are paid in one of the others, by their ids.
    pub currencies: Option<(String, Vec<String>)>,
    /// Any of these states, or any at all when there are none.
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
            .add_option(self.currencies.as_ref().map(in_currencies))
            .add_option(states.map(|states| Column::State.is_in(states.iter().map(|state| state.wire()))))
    }
}

fn in_currencies((invoice, payments): &(String, Vec<String>)) -> Expr {
    let of_request = |column: requests::Column| Expr::col((requests::Entity, column));
    let concerned = Query::select()
        .expr(Expr::val(1))
        .from(requests::Entity)
        .and_where(of_request(requests::Column::PlatformId).equals((Entity, Column::PlatformId)))
        .and_where(of_request(requests::Column::Id).equals((Entity, Column::RequestRow)))
        .and_where(of_request(requests::Column::InvoiceCurrency).eq(invoice.as_str()))
        .and_where(of_request(requests::Column::PaymentCurrency).is_in(payments.iter().map(String::as_str)))
        .to_owned();
    Expr::exists(concerned)
}

/// Length of the digits, by which numbers without leading zeros are compared first.
fn digits() -> Expr {
    Func::char_length(Expr::col(Column::Units)).into()
}

fn at_least(least: U256) -> Condition {
    let text = least.to_string();
    let length = i32::try_from(text.len()).unwrap_or(i32::MAX);
    let as_long = Condition::all().add(digits().eq(length)).add(Column::Units.gte(text));
    Condition::any().add(digits().gt(length)).add(as_long)
}

/// What was set aside, newest first, at most `limit`, and older than `after`.
pub async fn list(
    conn: &impl ConnectionTrait,
    filter: &QuarantineFilter,
    after: Option<&QuarantineId>,
    limit: u64,
) -> Result<Vec<Quarantined>, StoreError> {
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
pub async fn get(conn: &impl ConnectionTrait, id: &QuarantineId) -> Result<Option<Quarantined>, StoreError> {
    let row = Entity::find().filter(Column::Id.eq(id.as_str())).one(conn).await?;
    row.map(from_row).transpose()
}

/// What keeps payments of a request from being credited, at most `limit`, and how many there are: first what nobody has
/// decided, then what was rejected, the largest of each first, by what arrived.
pub async fn list_of_request(
    conn: &impl ConnectionTrait,
    request: &Request,
    limit: u64,
) -> Result<(Vec<Quarantined>, u64), StoreError> {
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

/// Leaves alone everything that is looked for and that nobody has decided; returns how many there were.
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

/// Writes a verdict, provided that the state is still the one that it was decided on; tells whether it did. A note that
/// is absent leaves the one that is there.
pub async fn set_state(
    conn: &impl ConnectionTrait,
    quarantined: &Quarantined,
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

/// How many wait for somebody, by network; a network without any is missing.
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

/// Heights between these two, both included, with something that nobody has decided.
pub async fn open_heights(
    conn: &impl ConnectionTrait,
    network: Network,
    (from, to): (u64, u64),
) -> Result<BTreeSet<u64>, StoreError> {
    let from: i64 = columns::number("block_number", from)?;
    let to: i64 = columns::number("block_number", to)?;
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

/// Settles what nobody has decided in blocks that were read again, except in those that could not be judged this time.
/// Call it before [`put`] in the same transaction: what is still odd is opened again.
pub async fn settle_blocks(
    conn: &impl ConnectionTrait,
    network: Network,
    (from, to): (u64, u64),
    except: &[u64],
    now: DateTime<Utc>,
) -> Result<u64, StoreError> {
    let from: i64 = columns::number("block_number", from)?;
    let to: i64 = columns::number("block_number", to)?;
    let except = except.iter().map(|number| columns::number("block_number", *number));
    let except = except.collect::<Result<Vec<i64>, _>>()?;
    let mut update = Entity::update_many()
        .col_expr(Column::State, Expr::value(QuarantineState::Settled.wire()))
        .col_expr(Column::SettledAt, Expr::value(now))
        .filter(Column::Network.eq(network.id()))
        .filter(Column::BlockNumber.between(from, to))
        // Money that went after it was paid out is nothing that a block says.
        .filter(Column::Reason.ne(OddReason::PaidOut.wire()))
        .filter(is_open());
    if !except.is_empty() {
        update = update.filter(Column::BlockNumber.is_not_in(except));
    }
    Ok(update.exec(conn).await?.rows_affected)
}

/// Places of payments that the operator had credited, among those of these transactions.
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

/// Deletes what was settled or minor before `cutoff`, at most `limit`; returns how many. What the operator decided is kept: it
/// holds when the block is read again.
pub async fn forget(conn: &impl ConnectionTrait, cutoff: DateTime<Utc>, limit: u64) -> Result<u64, StoreError> {
    let over = [QuarantineState::Settled, QuarantineState::Minor].map(QuarantineState::wire);
    let over = Condition::all()
        .add(Column::State.is_in(over))
        .add(Column::SettledAt.lt(cutoff));
    columns::delete_oldest::<Entity>(conn, (Column::Id, Column::SettledAt), over, limit).await
}
