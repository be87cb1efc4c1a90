//! Payments to known requests near the head of the chain. These preliminary records show which money is in flight.

use super::{StoreError, columns};
use crate::domain::{
    block_range::BlockRange,
    network::Network,
    payment::{Observation, ObservedConversion},
};
use alloy::primitives::B256;
use chrono::{DateTime, Utc};
use entities::observations::{ActiveModel, Column, Entity, Model};
use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QuerySelect, sea_query::OnConflict};
use std::collections::{BTreeSet, HashMap};

fn to_row(observed: &Observation, now: DateTime<Utc>) -> Result<Model, StoreError> {
    let conversion = observed.conversion.as_ref();
    Ok(Model {
        network: observed.network.id().to_owned(),
        tx_hash: columns::hash_text(&observed.tx_hash),
        position: columns::number("position", observed.position)?,
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
        max_rate_timespan_s: conversion.map(|conversion| conversion.max_rate_timespan_s.to_string()),
        seen_at: now,
    })
}

fn from_row(row: Model) -> Result<Observation, StoreError> {
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
            max_rate_timespan_s: columns::units("max_rate_timespan_s", &timespan)?,
        }),
        _ => return Err(columns::broken("invoice_units", "an incomplete conversion")),
    };
    Ok(Observation {
        network: columns::network(&row.network)?,
        tx_hash: columns::hash("tx_hash", &row.tx_hash)?,
        position: columns::number("position", row.position)?,
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
    })
}

/// Records observations; an observation that is already stored gets the newest values and position.
pub async fn note(
    conn: &impl ConnectionTrait,
    observations: &[Observation],
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    // One statement must not contain the same key twice; the last observation is the newest.
    let mut latest = HashMap::new();
    for observed in observations {
        latest.insert((observed.network, observed.tx_hash, observed.position), observed);
    }
    let mut rows = latest
        .values()
        .map(|observed| to_row(observed, now))
        .collect::<Result<Vec<_>, _>>()?;
    // All writers lock rows in the same order.
    rows.sort_by(|one, other| {
        (&one.network, &one.tx_hash, one.position).cmp(&(&other.network, &other.tx_hash, other.position))
    });
    for rows in rows.chunks(columns::ROWS_MAX) {
        let replaced = OnConflict::columns([Column::Network, Column::TxHash, Column::Position])
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
            .to_owned();
        Entity::insert_many(rows.iter().cloned().map(ActiveModel::from))
            .on_conflict(replaced)
            .exec_without_returning(conn)
            .await?;
    }
    Ok(())
}

/// Deletes observations above a height, because a reorganisation has replaced these blocks. Returns how many.
pub async fn delete_above(conn: &impl ConnectionTrait, network: Network, number: u64) -> Result<u64, StoreError> {
    let number: i64 = columns::number("block_number", number)?;
    delete(conn, network, Column::BlockNumber.gt(number)).await
}

/// Deletes observations up to and including a height, because these blocks are final. Returns how many.
pub async fn delete_up_to(conn: &impl ConnectionTrait, network: Network, number: u64) -> Result<u64, StoreError> {
    let number: i64 = columns::number("block_number", number)?;
    delete(conn, network, Column::BlockNumber.lte(number)).await
}

async fn delete(
    conn: &impl ConnectionTrait,
    network: Network,
    which: sea_orm::sea_query::Expr,
) -> Result<u64, StoreError> {
    let result = Entity::delete_many()
        .filter(Column::Network.eq(network.id()))
        .filter(which)
        .exec(conn)
        .await?;
    Ok(result.rows_affected)
}

/// Heights within a range of blocks that have at least one observation.
pub async fn heights(
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
        .into_tuple()
        .all(conn)
        .await?;
    let heights = heights.into_iter();
    heights.map(|height| columns::number("block_number", height)).collect()
}

/// Observations, that is payments in flight, with one of these reference topics.
pub async fn list_seen_by_topics(
    conn: &impl ConnectionTrait,
    network: Network,
    topics: &[B256],
) -> Result<Vec<Observation>, StoreError> {
    let topics = topics.iter().map(columns::hash_text);
    let mut rows = Entity::find()
        .filter(Column::Network.eq(network.id()))
        .filter(columns::is_among(conn, Column::ReferenceTopic, topics))
        .all(conn)
        .await?;
    // The rows are sorted here: with an ORDER BY, SQLite would read all observations of the network by height.
    rows.sort_by_key(|row| (row.block_number, row.log_index));
    rows.into_iter().map(from_row).collect()
}
