//! What calldata was handed out for each request.

use super::{StoreError, columns};
use crate::domain::{
    amount::Percent,
    conversion::RateBounds,
    handed_out::HandedOut,
    ids::{ClientRowId, RequestRowId},
    request::Request,
};
use alloy::primitives::keccak256;
use chrono::{DateTime, Utc};
use entities::handed_out::{ActiveModel, Column, Entity, Model};
use sea_orm::{
    ColumnTrait, Condition, ConnectionTrait, EntityTrait, PaginatorTrait, QueryFilter, QueryOrder,
    sea_query::OnConflict,
};
use std::collections::{BTreeSet, HashMap};

/// Who an answer was given to: a client ID, or whoever acts for the whole platform.
type Asker<'a> = Option<&'a ClientRowId>;

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
    };
    let content = [
        row.fee_basis_points.map(|points| points.to_string()),
        row.fee_address.clone(),
        row.path.clone(),
        row.max_rate_age_s.map(|age| age.to_string()),
        Some(row.client_row.clone()),
        Some(row.is_binding.to_string()),
    ];
    let content = content.map(|column| column.unwrap_or_default()).join("|");
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
        rates,
        is_binding: row.is_binding,
    })
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

/// How many different fees bind a request because this asker had them handed out.
pub async fn count_fees(conn: &impl ConnectionTrait, request: &Request, asker: Asker<'_>) -> Result<u64, StoreError> {
    let fees = Entity::find()
        .filter(of_request(request))
        .filter(Column::ClientRow.eq(asker.map_or("", ClientRowId::as_str)))
        .filter(Column::IsBinding.eq(true))
        .filter(Column::FeeBasisPoints.is_not_null());
    Ok(fees.count(conn).await?)
}

/// Keeps what was handed out for a request; an equal answer is kept already.
pub async fn keep(
    conn: &impl ConnectionTrait,
    request: &Request,
    asker: Asker<'_>,
    handed: &HandedOut,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let conflict = OnConflict::columns([Column::PlatformId, Column::RequestRow, Column::ContentHash])
        .do_nothing()
        .to_owned();
    Entity::insert(ActiveModel::from(to_row(request, asker, handed, now)?))
        .on_conflict(conflict)
        .exec_without_returning(conn)
        .await?;
    Ok(())
}

/// Everything that was handed out for requests, the oldest first; one of which nothing is kept is missing.
pub async fn of_requests(
    conn: &impl ConnectionTrait,
    requests: &[&Request],
) -> Result<HashMap<RequestRowId, Vec<HandedOut>>, StoreError> {
    let mut found: HashMap<RequestRowId, Vec<HandedOut>> = HashMap::new();
    for requests in requests.chunks(columns::ROWS_MAX) {
        let owners: BTreeSet<&str> = requests
            .iter()
            .map(|request| request.origin.platform.as_str())
            .collect();
        let rows = Entity::find()
            .filter(Column::PlatformId.is_in(owners))
            .filter(Column::RequestRow.is_in(requests.iter().map(|request| request.row.as_str())))
            .order_by_asc(Column::HandedOutAt)
            .all(conn)
            .await?;
        for row in rows {
            let handed = from_row(&row)?;
            found.entry(RequestRowId(row.request_row)).or_default().push(handed);
        }
    }
    Ok(found)
}
