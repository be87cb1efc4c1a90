//! Payment events as the chain shows them, kept until they are final and proven, whoever they belong to.

use super::{StoreError, columns};
use crate::domain::{
    network::Network,
    payment::{Observation, ObservedConversion},
    wire_text::wire_text,
};
use alloy::primitives::B256;
use chrono::{DateTime, Utc};
use entities::observations::{ActiveModel, Column, Entity, Model};
use sea_orm::{
    ColumnTrait, Condition, ConnectionTrait, EntityTrait, QueryFilter, QueryOrder, QueryTrait,
    sea_query::{Expr, ExprTrait, OnConflict},
};
use std::collections::HashMap;

wire_text! {
    /// State of an observation.
    pub enum ObservationState {
        /// Read. Whether its block is final is told by the cursor of the chain, so that no row has to change for it.
        Seen = "seen",
        /// Final, proven and credited to a request.
        Credited = "credited",
        /// Final, but the transaction does not prove it.
        Unproven = "unproven",
    }
}

fn to_row(observed: &Observation, found_by_audit: bool, now: DateTime<Utc>) -> Result<Model, StoreError> {
    let conversion = observed.conversion.as_ref();
    let timespan =
        |conversion: &ObservedConversion| columns::number("max_rate_timespan_s", conversion.max_rate_timespan_s);
    Ok(Model {
        network: observed.network.id().to_owned(),
        tx_hash: columns::hash_text(&observed.tx_hash),
        ordinal: columns::number("ordinal", observed.ordinal)?,
        block_number: columns::number("block_number", observed.block_number)?,
        block_hash: columns::hash_text(&observed.block_hash),
        log_index: columns::number("log_index", observed.log_index)?,
        proxy: observed.proxy.canonical(),
        reference_topic: columns::hash_text(&observed.reference_topic),
        token: observed.token.map(|token| token.canonical()),
        payee: observed.payee.canonical(),
        units: observed.units.to_string(),
        fee_units: observed.fee_units.to_string(),
        fee_address: observed.fee_address.map(|address| address.canonical()),
        invoice_units: conversion.map(|conversion| conversion.invoice_units.to_string()),
        invoice_fee_units: conversion.map(|conversion| conversion.invoice_fee_units.to_string()),
        conversion_currency: conversion.map(|conversion| conversion.currency.canonical()),
        max_rate_timespan_s: conversion.map(timespan).transpose()?,
        state: ObservationState::Seen.wire().to_owned(),
        found_by_audit,
        seen_at: now,
    })
}

fn from_row(row: Model) -> Result<(Observation, ObservationState), StoreError> {
    let conversion = match (
        row.invoice_units,
        row.invoice_fee_units,
        row.conversion_currency,
        row.max_rate_timespan_s,
    ) {
        (None, None, None, None) => None,
        (Some(invoice), Some(fee), Some(currency), Some(timespan)) => Some(ObservedConversion {
            invoice_units: columns::units("invoice_units", &invoice)?,
            invoice_fee_units: columns::units("invoice_fee_units", &fee)?,
            currency: columns::address("conversion_currency", &currency)?,
            max_rate_timespan_s: columns::number("max_rate_timespan_s", timespan)?,
        }),
        _ => return Err(columns::broken("invoice_units", "only a part of a conversion")),
    };
    let observed = Observation {
        network: columns::network(&row.network)?,
        tx_hash: columns::hash("tx_hash", &row.tx_hash)?,
        ordinal: columns::number("ordinal", row.ordinal)?,
        block_number: columns::number("block_number", row.block_number)?,
        block_hash: columns::hash("block_hash", &row.block_hash)?,
        log_index: columns::number("log_index", row.log_index)?,
        proxy: columns::address("proxy", &row.proxy)?,
        reference_topic: columns::hash("reference_topic", &row.reference_topic)?,
        token: columns::address_option("token", row.token.as_deref())?,
        payee: columns::address("payee", &row.payee)?,
        units: columns::units("units", &row.units)?,
        fee_units: columns::units("fee_units", &row.fee_units)?,
        fee_address: columns::address_option("fee_address", row.fee_address.as_deref())?,
        conversion,
    };
    let state = columns::known("state", &row.state, ObservationState::from_wire)?;
    Ok((observed, state))
}

/// Writes observations and returns how many of them are new.
///
/// A known one that a reorganisation has put elsewhere takes over the newest facts while it is only seen; from finality
/// on nothing changes it. The transaction may do other things in its new place, so amounts follow as well.
pub async fn insert_many(
    conn: &impl ConnectionTrait,
    observations: &[Observation],
    found_by_audit: bool,
    now: DateTime<Utc>,
) -> Result<u64, StoreError> {
    // One statement must not meet the same key twice; the last observation is the newest.
    let mut latest = HashMap::new();
    for observed in observations {
        latest.insert((observed.network, observed.tx_hash, observed.ordinal), observed);
    }
    let mut rows = latest
        .values()
        .map(|observed| to_row(observed, found_by_audit, now))
        .collect::<Result<Vec<_>, _>>()?;
    // All writers lock rows in the same order.
    rows.sort_by(|one, other| {
        (&one.network, &one.tx_hash, one.ordinal).cmp(&(&other.network, &other.tx_hash, other.ordinal))
    });
    let key = || OnConflict::columns([Column::Network, Column::TxHash, Column::Ordinal]);
    let mut new_count = 0;
    for rows in rows.chunks(columns::ROWS_MAX) {
        let insertion = || Entity::insert_many(rows.iter().cloned().map(ActiveModel::from)).into_query();
        let mut fresh = insertion();
        fresh.on_conflict(key().do_nothing().to_owned());
        let written = conn.execute(&fresh).await?.rows_affected();
        new_count += written;
        let all = columns::number::<usize, u64>("rows", rows.len())?;
        if written < all {
            let mut moved = insertion();
            moved.on_conflict(
                key()
                    .update_columns([
                        Column::BlockNumber,
                        Column::BlockHash,
                        Column::LogIndex,
                        Column::Proxy,
                        Column::ReferenceTopic,
                        Column::Token,
                        Column::Payee,
                        Column::Units,
                        Column::FeeUnits,
                        Column::FeeAddress,
                        Column::InvoiceUnits,
                        Column::InvoiceFeeUnits,
                        Column::ConversionCurrency,
                        Column::MaxRateTimespanS,
                    ])
                    .action_and_where(stored(Column::State).eq(ObservationState::Seen.wire()))
                    .action_and_where(
                        stored(Column::BlockHash)
                            .ne(excluded(Column::BlockHash))
                            .or(stored(Column::LogIndex).ne(excluded(Column::LogIndex))),
                    )
                    .to_owned(),
            );
            conn.execute(&moved).await?;
        }
    }
    Ok(new_count)
}

/// The row that is there already.
fn stored(column: Column) -> Expr {
    Expr::col((Entity, column))
}

/// The row that was to be inserted.
fn excluded(column: Column) -> Expr {
    Expr::col(("excluded", column))
}

/// Forgets what was only seen above a height: a reorganisation has replaced these blocks. Answers how many.
pub async fn delete_above(conn: &impl ConnectionTrait, network: Network, number: u64) -> Result<u64, StoreError> {
    let number: i64 = columns::number("block_number", number)?;
    let result = Entity::delete_many()
        .filter(Column::Network.eq(network.id()))
        .filter(Column::BlockNumber.gt(number))
        .filter(Column::State.eq(ObservationState::Seen.wire()))
        .exec(conn)
        .await?;
    Ok(result.rows_affected)
}

/// Observations from one height to another, both included, in the order of the chain.
pub async fn in_range(
    conn: &impl ConnectionTrait,
    network: Network,
    from: u64,
    to: u64,
) -> Result<Vec<(Observation, ObservationState)>, StoreError> {
    let from: i64 = columns::number("block_number", from)?;
    let to: i64 = columns::number("block_number", to)?;
    let rows = Entity::find()
        .filter(Column::Network.eq(network.id()))
        .filter(Column::BlockNumber.between(from, to))
        .order_by_asc(Column::BlockNumber)
        .order_by_asc(Column::LogIndex)
        .all(conn)
        .await?;
    rows.into_iter().map(from_row).collect()
}

/// Observations with a reference topic that are not final yet: money that is in flight.
pub async fn list_seen_by_topic(
    conn: &impl ConnectionTrait,
    network: Network,
    topic: &B256,
) -> Result<Vec<Observation>, StoreError> {
    let mut rows = Entity::find()
        .filter(Column::Network.eq(network.id()))
        .filter(Column::ReferenceTopic.eq(columns::hash_text(topic)))
        .filter(Column::State.eq(ObservationState::Seen.wire()))
        .all(conn)
        .await?;
    // Sorted here: asked for an order, SQLite would walk all observations of the network by height.
    rows.sort_by_key(|row| (row.block_number, row.log_index));
    rows.into_iter().map(|row| Ok(from_row(row)?.0)).collect()
}

/// Sets the state of observations, named by transaction and ordinal; returns how many there are.
pub async fn set_state(
    conn: &impl ConnectionTrait,
    network: Network,
    keys: &[(B256, u32)],
    state: ObservationState,
) -> Result<u64, StoreError> {
    let mut changed = 0;
    for keys in keys.chunks(columns::ROWS_MAX) {
        let mut by_ordinal: HashMap<u32, Vec<String>> = HashMap::new();
        for (tx_hash, ordinal) in keys {
            by_ordinal
                .entry(*ordinal)
                .or_default()
                .push(columns::hash_text(tx_hash));
        }
        // Nearly all ordinals are 0, so grouping by them keeps the condition short.
        let mut named = Condition::any();
        for (ordinal, tx_hashes) in by_ordinal {
            let ordinal: i32 = columns::number("ordinal", ordinal)?;
            named = named.add(Column::TxHash.is_in(tx_hashes).and(Column::Ordinal.eq(ordinal)));
        }
        let result = Entity::update_many()
            .col_expr(Column::State, Expr::value(state.wire()))
            .filter(Column::Network.eq(network.id()))
            .filter(named)
            .exec(conn)
            .await?;
        changed += result.rows_affected;
    }
    Ok(changed)
}
