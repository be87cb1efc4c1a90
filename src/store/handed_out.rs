//! The fees that calldata responses stated for each request, beyond the price terms of the request.

use super::{
    StoreError,
    columns::{self, RequestColumns},
};
use crate::domain::{
    handed_out::HandedOut,
    ids::{ClientRowId, RequestRowId},
    paying::charge::{Charge, FeeOrigin},
    request::Request,
};
use alloy::primitives::keccak256;
use chrono::{DateTime, Utc};
use entities::handed_out::{ActiveModel, Column, Entity, Model};
use sea_orm::{ColumnTrait, Condition, ConnectionTrait, EntityTrait, QueryFilter, QuerySelect, sea_query::OnConflict};
use std::collections::{BTreeSet, HashMap, HashSet};

/// The columns that refer to the request of a row.
const REQUEST: RequestColumns<Column> = RequestColumns {
    platform: Column::PlatformId,
    row: Column::RequestRow,
};

/// The caller who received a fee: a client ID, or `None` for a caller that acts for the whole platform.
pub(super) type RecipientColumns<'a> = Option<&'a ClientRowId>;

fn to_row(request: &Request, asker: RecipientColumns<'_>, handed: &HandedOut, now: DateTime<Utc>) -> Model {
    let mut row = Model {
        platform_id: request.origin.platform.0.clone(),
        request_row: request.row.0.clone(),
        content_hash: String::new(),
        fee_basis_points: handed.fee.map(|fee| i32::from(fee.rate.basis_points())),
        fee_address: handed.fee.map(|fee| fee.receiver.canonical()),
        handed_out_at: now,
        client_row: asker.map(|client| client.0.clone()).unwrap_or_default(),
    };
    let content = [
        row.fee_basis_points.map(|points| points.to_string()),
        row.fee_address.clone(),
        Some(row.client_row.clone()),
    ];
    let content = content.map(|column| column.unwrap_or_default()).join("|");
    row.content_hash = columns::hash_text(&keccak256(content));
    row
}

fn from_row(row: &Model) -> Result<HandedOut, StoreError> {
    let percent = row
        .fee_basis_points
        .map(|points| columns::percent("fee_basis_points", points))
        .transpose()?;
    let receiver = columns::address_option("fee_address", row.fee_address.as_deref())?;
    if percent.is_some() != receiver.is_some() {
        return Err(columns::broken(
            "fee_address",
            row.fee_address.as_deref().unwrap_or_default(),
        ));
    }
    Ok(HandedOut {
        fee: percent
            .zip(receiver)
            .map(|(rate, receiver)| Charge::platform(FeeOrigin::Call, rate, receiver)),
    })
}

fn of_request(request: &Request) -> Condition {
    Condition::all()
        .add(Column::PlatformId.eq(request.origin.platform.as_str()))
        .add(Column::RequestRow.eq(request.row.as_str()))
}

/// Whether it is already stored that this recipient received calldata with this fee for the request.
pub async fn is_kept(
    conn: &impl ConnectionTrait,
    request: &Request,
    asker: RecipientColumns<'_>,
    handed: &HandedOut,
    now: DateTime<Utc>,
) -> Result<bool, StoreError> {
    let hash = to_row(request, asker, handed, now).content_hash;
    let found = Entity::find()
        .filter(of_request(request))
        .filter(Column::ContentHash.eq(hash));
    Ok(found.one(conn).await?.is_some())
}

/// The requests for which it is already stored that this recipient received calldata with the given fee; `handed` has
/// one fee for each request.
pub async fn kept(
    conn: &impl ConnectionTrait,
    asker: RecipientColumns<'_>,
    handed: &[(&Request, &HandedOut)],
    now: DateTime<Utc>,
) -> Result<HashSet<RequestRowId>, StoreError> {
    let mut found = HashSet::new();
    for handed in handed.chunks(columns::ROWS_MAX) {
        let hash = |(request, handed): &(&Request, &HandedOut)| {
            let row = to_row(request, asker, handed, now);
            (row.request_row, row.content_hash)
        };
        let asked: HashSet<(String, String)> = handed.iter().map(hash).collect();
        let requests: Vec<&Request> = handed.iter().map(|(request, _)| *request).collect();
        let hashes: BTreeSet<String> = asked.iter().map(|(_, hash)| hash.clone()).collect();
        let rows: Vec<(String, String)> = Entity::find()
            .select_only()
            .columns([Column::RequestRow, Column::ContentHash])
            .filter(rows_of(conn, &requests))
            .filter(columns::is_among(conn, Column::ContentHash, hashes))
            .into_tuple()
            .all(conn)
            .await?;
        let equal = rows.into_iter().filter(|row| asked.contains(row));
        found.extend(equal.map(|(request, _)| RequestRowId(request)));
    }
    Ok(found)
}

fn rows_of(conn: &impl ConnectionTrait, requests: &[&Request]) -> Condition {
    columns::among_requests(conn, REQUEST, requests)
}

/// For each request, the number of different fees in the calldata that this recipient received; a request without fees
/// is missing from the result.
pub async fn count_fees(
    conn: &impl ConnectionTrait,
    requests: &[&Request],
    asker: RecipientColumns<'_>,
) -> Result<HashMap<RequestRowId, u64>, StoreError> {
    let fees = Condition::all()
        .add(Column::ClientRow.eq(asker.map_or("", ClientRowId::as_str)))
        .add(Column::FeeBasisPoints.is_not_null());
    columns::count_of_requests::<Entity>(conn, REQUEST, requests, fees).await
}

/// Stores the fees of calldata that was returned for requests, with one statement for many rows. Equal fees of one
/// recipient and request are stored once. All transactions must pass their rows in the same order, so that they cannot
/// deadlock.
pub async fn keep(
    conn: &impl ConnectionTrait,
    asker: RecipientColumns<'_>,
    handed: &[(&Request, &HandedOut)],
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    for handed in handed.chunks(columns::ROWS_MAX) {
        let conflict = OnConflict::columns([Column::PlatformId, Column::RequestRow, Column::ContentHash])
            .do_nothing()
            .to_owned();
        let rows = handed
            .iter()
            .map(|(request, handed)| ActiveModel::from(to_row(request, asker, handed, now)));
        Entity::insert_many(rows)
            .on_conflict(conflict)
            .exec_without_returning(conn)
            .await?;
    }
    Ok(())
}

/// For each request, the fees of all calldata that was returned for it, the oldest first; a request without stored fees
/// is missing from the result.
pub async fn of_requests(
    conn: &impl ConnectionTrait,
    requests: &[&Request],
) -> Result<HashMap<RequestRowId, Vec<HandedOut>>, StoreError> {
    columns::of_requests::<Entity, _>(conn, REQUEST, Column::HandedOutAt, requests, |row| {
        let kept = from_row(&row)?;
        Ok((RequestRowId(row.request_row), kept))
    })
    .await
}
