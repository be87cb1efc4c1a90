//! Quotes that were returned for requests.

use super::{
    StoreError,
    columns::{self, RequestColumns},
    handed_out::RecipientColumns,
    rates,
};
use crate::domain::{
    ids::{ClientRowId, RequestRowId},
    quote::Quote,
    rates::{AppliedRate, RateProvider},
    request::Request,
};
use alloy::primitives::keccak256;
use chrono::{DateTime, Utc};
use entities::quotes::{ActiveModel, Column, Entity, Model};
use sea_orm::{
    ColumnTrait, Condition, ConnectionTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect,
    sea_query::{Expr, ExprTrait, IntoIden, OnConflict, Query, TableRef, UpdateStatement, ValueTuple},
};
use std::collections::{HashMap, HashSet};

/// The columns that refer to the request of a row.
const REQUEST: RequestColumns<Column> = RequestColumns {
    platform: Column::PlatformId,
    row: Column::RequestRow,
};

/// Alias of the list of values in an update.
const GIVEN: &str = "given";

/// Column value for the caller that receives a quote.
fn asker_text(asker: RecipientColumns<'_>) -> &str {
    asker.map_or("", ClientRowId::as_str)
}

fn to_row(request: &Request, asker: RecipientColumns<'_>, quote: &Quote) -> Model {
    let mut row = Model {
        id: String::new(),
        platform_id: request.origin.platform.0.clone(),
        request_row: request.row.0.clone(),
        settlement_units: quote.settlement.to_string(),
        units: quote.units.to_string(),
        rate: quote.applied.rate.to_string(),
        rate_provider: quote.applied.provider.wire().to_owned(),
        quoted_at: quote.from,
        ends_at: quote.until,
        client_row: asker_text(asker).to_owned(),
    };
    let content = [
        row.platform_id.as_str(),
        &row.request_row,
        &row.settlement_units,
        &row.units,
        &row.rate,
        &row.rate_provider,
        &row.quoted_at.timestamp_millis().to_string(),
        &row.client_row,
    ];
    row.id = columns::hash_text(&keccak256(content.join("|")));
    row
}

fn from_row(row: &Model) -> Result<Quote, StoreError> {
    Ok(Quote {
        settlement: columns::units("settlement_units", &row.settlement_units)?,
        units: columns::units("units", &row.units)?,
        applied: AppliedRate {
            rate: rates::rate(&row.rate)?,
            provider: columns::known("rate_provider", &row.rate_provider, RateProvider::from_wire)?,
        },
        from: row.quoted_at,
        until: row.ends_at,
    })
}

/// Extends open quotes instead of adding equal ones: each stored quote of this recipient with the same content gets the
/// later expiry. Returns the requests that have such a quote. Quotes of other recipients stay unchanged, because a call
/// must not extend the quote of another recipient.
pub async fn prolong(
    conn: &impl ConnectionTrait,
    asker: RecipientColumns<'_>,
    quoted: &[(&Request, &Quote)],
) -> Result<HashSet<RequestRowId>, StoreError> {
    let mut prolonged = HashSet::new();
    for quoted in quoted.chunks(columns::ROWS_MAX) {
        let rows = quoted.iter().map(|(request, quote)| to_row(request, asker, quote));
        for row in conn.query_all(&prolongation(rows)).await? {
            prolonged.insert(RequestRowId(row.try_get("", "request_row")?));
        }
    }
    Ok(prolonged)
}

/// One update of all given rows, each with its own values. Both databases name the columns of a list of values
/// `column1`, `column2` and so on.
fn prolongation(rows: impl Iterator<Item = Model>) -> UpdateStatement {
    let given = |column: &'static str| Expr::col((GIVEN, column));
    let stored = |column: Column| Expr::col((Entity, column));
    let rows = rows.map(|row| {
        ValueTuple::Many(vec![
            row.platform_id.into(),
            row.request_row.into(),
            row.client_row.into(),
            row.settlement_units.into(),
            row.units.into(),
            row.rate.into(),
            row.rate_provider.into(),
            row.quoted_at.into(),
            row.ends_at.into(),
        ])
    });
    Query::update()
        .table(Entity)
        .from(TableRef::ValuesList(rows.collect(), GIVEN.into_iden()))
        .value(Column::EndsAt, given("column9"))
        .and_where(stored(Column::PlatformId).eq(given("column1")))
        .and_where(stored(Column::RequestRow).eq(given("column2")))
        .and_where(stored(Column::ClientRow).eq(given("column3")))
        .and_where(stored(Column::SettlementUnits).eq(given("column4")))
        .and_where(stored(Column::Units).eq(given("column5")))
        .and_where(stored(Column::Rate).eq(given("column6")))
        .and_where(stored(Column::RateProvider).eq(given("column7")))
        .and_where(stored(Column::EndsAt).gte(given("column8")))
        .returning(Query::returning().column(Column::RequestRow))
        .to_owned()
}

/// Stores quotes of requests, with one statement for many.
pub async fn insert(
    conn: &impl ConnectionTrait,
    asker: RecipientColumns<'_>,
    quoted: &[(&Request, &Quote)],
) -> Result<(), StoreError> {
    for quoted in quoted.chunks(columns::ROWS_MAX) {
        let rows = quoted
            .iter()
            .map(|(request, quote)| ActiveModel::from(to_row(request, asker, quote)));
        // An equal quote from the same time is already stored.
        Entity::insert_many(rows)
            .on_conflict(
                OnConflict::columns([Column::PlatformId, Column::Id])
                    .do_nothing()
                    .to_owned(),
            )
            .exec_without_returning(conn)
            .await?;
    }
    Ok(())
}

/// Number of open quotes of each request that this recipient was given; a request without quotes is missing from the
/// result.
pub async fn count_open(
    conn: &impl ConnectionTrait,
    requests: &[&Request],
    asker: RecipientColumns<'_>,
    now: DateTime<Utc>,
) -> Result<HashMap<RequestRowId, u64>, StoreError> {
    let open = Condition::all()
        .add(Column::ClientRow.eq(asker_text(asker)))
        .add(Column::EndsAt.gte(now));
    columns::count_of_requests::<Entity>(conn, REQUEST, requests, open).await
}

/// Every quote of requests, the oldest first; a request without quotes is missing from the result.
pub async fn of_requests(
    conn: &impl ConnectionTrait,
    requests: &[&Request],
) -> Result<HashMap<RequestRowId, Vec<Quote>>, StoreError> {
    columns::of_requests::<Entity, _>(conn, REQUEST, Column::QuotedAt, requests, |row| {
        let kept = from_row(&row)?;
        Ok((RequestRowId(row.request_row), kept))
    })
    .await
}

/// Deletes quotes that expired before a time, at most `limit`; returns how many.
pub async fn forget(conn: &impl ConnectionTrait, before: DateTime<Utc>, limit: u64) -> Result<u64, StoreError> {
    let ended = Column::EndsAt.lt(before);
    let oldest: Vec<(String, String)> = Entity::find()
        .select_only()
        .columns([Column::PlatformId, Column::Id])
        .filter(ended.clone())
        .order_by_asc(Column::EndsAt)
        .limit(limit)
        .into_tuple()
        .all(conn)
        .await?;
    let mut gone = 0;
    for (platform, ids) in columns::by_owner(oldest) {
        let forgetting = Entity::delete_many()
            .filter(Column::PlatformId.eq(platform))
            .filter(columns::is_among(conn, Column::Id, ids))
            // A quote that was extended in the meantime stays.
            .filter(ended.clone());
        gone += forgetting.exec(conn).await?.rows_affected;
    }
    Ok(gone)
}
