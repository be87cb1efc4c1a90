//! What calldata was handed out for each request.

use super::{StoreError, columns};
use crate::domain::{
    amount::Percent,
    conversion::RateBounds,
    fees::Fee,
    handed_out::HandedOut,
    ids::{ClientRowId, RequestRowId},
    request::Request,
};
use alloy::primitives::keccak256;
use chrono::{DateTime, Utc};
use entities::handed_out::{ActiveModel, Column, Entity, Model};
use sea_orm::{ColumnTrait, Condition, ConnectionTrait, EntityTrait, QueryFilter, QuerySelect, sea_query::OnConflict};
use std::collections::{BTreeSet, HashMap, HashSet};

/// Who an answer was given to: a client ID, or whoever acts for the whole platform.
pub(super) type Asker<'a> = Option<&'a ClientRowId>;

/// The asker as a column; an answer that binds nobody is the same whoever asked.
fn asker_text(asker: Asker<'_>, handed: &HandedOut) -> String {
    let asker = asker.filter(|_| handed.is_binding);
    asker.map(|client| client.0.clone()).unwrap_or_default()
}

fn to_row(request: &Request, asker: Asker<'_>, handed: &HandedOut, now: DateTime<Utc>) -> Result<Model, StoreError> {
    let path = |rates: &RateBounds| {
        let hashes: Vec<String> = rates.path.iter().map(hex::encode_prefixed).collect();
        hashes.join(",")
    };
    let age = |rates: &RateBounds| columns::number("max_rate_age_s", rates.max_age_s);
    let mut row = Model {
        platform_id: request.origin.platform.0.clone(),
        request_row: request.row.0.clone(),
        content_hash: String::new(),
        fee_basis_points: handed.fee.map(|(percent, _)| i32::from(percent.basis_points())),
        fee_address: handed.fee.map(|(_, address)| address.canonical()),
        path: handed.rates.as_ref().map(path),
        max_rate_age_s: handed.rates.as_ref().map(age).transpose()?,
        handed_out_at: now,
        client_row: asker_text(asker, handed),
        is_binding: handed.is_binding,
        protocol_basis_points: handed.protocol.map(|fee| i32::from(fee.percent.basis_points())),
        protocol_address: handed.protocol.map(|fee| fee.receiver.canonical()),
        protocol_cap: handed.protocol.and_then(|fee| fee.cap).map(|cap| cap.to_string()),
    };
    let content = [
        row.fee_basis_points.map(|points| points.to_string()),
        row.fee_address.clone(),
        row.path.clone(),
        row.max_rate_age_s.map(|age| age.to_string()),
        Some(row.client_row.clone()),
        Some(row.is_binding.to_string()),
    ];
    let mut content = content.map(|column| column.unwrap_or_default()).join("|");
    // Without this fee the hash is what it was before there was one.
    if let (Some(points), Some(address)) = (row.protocol_basis_points, &row.protocol_address) {
        let cap = row.protocol_cap.as_deref().unwrap_or_default();
        content.push_str(&format!("|{points}|{address}|{cap}"));
    }
    row.content_hash = columns::hash_text(&keccak256(content));
    Ok(row)
}

fn from_row(row: &Model) -> Result<HandedOut, StoreError> {
    let percent = |points: i32| columns::number("fee_basis_points", points).map(Percent::from_basis_points);
    let percent = row.fee_basis_points.map(percent).transpose()?.flatten();
    let address = columns::address_option("fee_address", row.fee_address.as_deref())?;
    let path = |text: &str| -> Result<Vec<_>, StoreError> {
        let hashes = text.split(',');
        hashes
            .map(|hash| columns::known("path", hash, |hash| hash.parse().ok()))
            .collect()
    };
    let rates = match (row.path.as_deref(), row.max_rate_age_s) {
        (Some(text), Some(age)) => Some(RateBounds {
            path: path(text)?,
            max_age_s: columns::number("max_rate_age_s", age)?,
        }),
        (None, None) => None,
        _ => return Err(columns::broken("path", row.path.as_deref().unwrap_or_default())),
    };
    if percent.is_some() != address.is_some() {
        return Err(columns::broken(
            "fee_address",
            row.fee_address.as_deref().unwrap_or_default(),
        ));
    }
    Ok(HandedOut {
        fee: percent.zip(address),
        protocol: protocol_fee(row)?,
        rates,
        is_binding: row.is_binding,
    })
}

fn protocol_fee(row: &Model) -> Result<Option<Fee>, StoreError> {
    let (points, address) = (row.protocol_basis_points, row.protocol_address.as_deref());
    let Some(receiver) = columns::address_option("protocol_address", address)? else {
        return Ok(None);
    };
    let broken = || columns::broken("protocol_basis_points", &points.unwrap_or_default().to_string());
    let percent = points.and_then(|points| u16::try_from(points).ok());
    let percent = percent.and_then(Percent::from_basis_points).ok_or_else(broken)?;
    let cap = row.protocol_cap.as_deref();
    Ok(Some(Fee {
        percent,
        receiver,
        cap: cap.map(|cap| columns::units("protocol_cap", cap)).transpose()?,
    }))
}

fn of_request(request: &Request) -> Condition {
    Condition::all()
        .add(Column::PlatformId.eq(request.origin.platform.as_str()))
        .add(Column::RequestRow.eq(request.row.as_str()))
}

/// Whether an equal answer to the same asker is kept.
pub async fn is_kept(
    conn: &impl ConnectionTrait,
    request: &Request,
    asker: Asker<'_>,
    handed: &HandedOut,
    now: DateTime<Utc>,
) -> Result<bool, StoreError> {
    let hash = to_row(request, asker, handed, now)?.content_hash;
    let found = Entity::find()
        .filter(of_request(request))
        .filter(Column::ContentHash.eq(hash));
    Ok(found.one(conn).await?.is_some())
}

/// Of requests with an answer each, those of which an equal answer to the same asker is kept.
pub async fn kept(
    conn: &impl ConnectionTrait,
    asker: Asker<'_>,
    handed: &[(&Request, &HandedOut)],
    now: DateTime<Utc>,
) -> Result<HashSet<RequestRowId>, StoreError> {
    let mut found = HashSet::new();
    for handed in handed.chunks(columns::ROWS_MAX) {
        let hash = |(request, handed): &(&Request, &HandedOut)| {
            let row = to_row(request, asker, handed, now)?;
            Ok((row.request_row, row.content_hash))
        };
        let asked = handed.iter().map(hash).collect::<Result<HashSet<_>, StoreError>>()?;
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
    columns::among_requests(conn, (Column::PlatformId, Column::RequestRow), requests)
}

/// How many different fees bind each request because this asker had them handed out; one without any is missing.
pub async fn count_fees(
    conn: &impl ConnectionTrait,
    requests: &[&Request],
    asker: Asker<'_>,
) -> Result<HashMap<RequestRowId, u64>, StoreError> {
    let fees = Condition::all()
        .add(Column::ClientRow.eq(asker.map_or("", ClientRowId::as_str)))
        .add(Column::IsBinding.eq(true))
        .add(Column::FeeBasisPoints.is_not_null());
    columns::count_of_requests::<Entity>(conn, (Column::PlatformId, Column::RequestRow), requests, fees).await
}

/// Keeps what was handed out for requests, with one statement for many; an equal answer is kept already. Transactions
/// that keep several have to bring them in the same order.
pub async fn keep(
    conn: &impl ConnectionTrait,
    asker: Asker<'_>,
    handed: &[(&Request, &HandedOut)],
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    for handed in handed.chunks(columns::ROWS_MAX) {
        let conflict = OnConflict::columns([Column::PlatformId, Column::RequestRow, Column::ContentHash])
            .do_nothing()
            .to_owned();
        let rows = handed
            .iter()
            .map(|(request, handed)| Ok(ActiveModel::from(to_row(request, asker, handed, now)?)));
        let rows = rows.collect::<Result<Vec<_>, StoreError>>()?;
        Entity::insert_many(rows)
            .on_conflict(conflict)
            .exec_without_returning(conn)
            .await?;
    }
    Ok(())
}

/// Everything that was handed out for requests, the oldest first; one of which nothing is kept is missing.
pub async fn of_requests(
    conn: &impl ConnectionTrait,
    requests: &[&Request],
) -> Result<HashMap<RequestRowId, Vec<HandedOut>>, StoreError> {
    let columns = (Column::PlatformId, Column::RequestRow, Column::HandedOutAt);
    columns::of_requests::<Entity, _>(conn, columns, requests, |row| {
        let kept = from_row(&row)?;
        Ok((RequestRowId(row.request_row), kept))
    })
    .await
}
