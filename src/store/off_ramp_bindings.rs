//! To which bank account a request is paid out: the one for which it was quoted first, for good. One order pays one account,
//! so nothing is handed out for another one.

use super::StoreError;
use crate::domain::{
    address::Address,
    ids::{BankAccountId, PayerId},
    network::Network,
    off_ramp::PaidOutTo,
    request::Request,
};
use chrono::{DateTime, Utc};
use entities::{
    off_ramp_addresses,
    off_ramp_bindings::{ActiveModel, Column, Entity, Model},
};
use sea_orm::{ConnectionTrait, EntityTrait, sea_query::OnConflict};

fn key(request: &Request) -> (String, String) {
    (request.origin.platform.0.clone(), request.row.0.clone())
}

/// To which account a request is paid out; `None` before its first quote.
pub async fn of_request(conn: &impl ConnectionTrait, request: &Request) -> Result<Option<PaidOutTo>, StoreError> {
    let row = Entity::find_by_id(key(request)).one(conn).await?;
    Ok(row.map(|row| PaidOutTo {
        payer: PayerId(row.payer_id),
        account: BankAccountId(row.account_id),
    }))
}

/// Binds a request to an account; tells whether it is bound to that one now, and not to another one before.
pub async fn bind(
    conn: &impl ConnectionTrait,
    request: &Request,
    to: &PaidOutTo,
    now: DateTime<Utc>,
) -> Result<bool, StoreError> {
    let (platform_id, request_row) = key(request);
    let row = Model {
        platform_id,
        request_row,
        payer_id: to.payer.0.clone(),
        account_id: to.account.0.clone(),
        created_at: now,
        closed_at: None,
        closed_payments: None,
        closed_note: None,
    };
    let known = OnConflict::columns([Column::PlatformId, Column::RequestRow])
        .do_nothing()
        .to_owned();
    Entity::insert(ActiveModel::from(row))
        .on_conflict(known)
        .exec_without_returning(conn)
        .await?;
    Ok(of_request(conn, request).await?.as_ref() == Some(to))
}

/// Notes that a deposit address is that of an account; tells whether it is, and not that of another one before.
pub async fn claim(
    conn: &impl ConnectionTrait,
    (network, address): (Network, Address),
    request: &Request,
    to: &PaidOutTo,
) -> Result<bool, StoreError> {
    use off_ramp_addresses::{ActiveModel, Column, Entity, Model};
    let row = Model {
        network: network.id().to_owned(),
        deposit_address: address.canonical(),
        platform_id: request.origin.platform.0.clone(),
        payer_id: to.payer.0.clone(),
        account_id: to.account.0.clone(),
    };
    let known = OnConflict::columns([Column::Network, Column::DepositAddress])
        .do_nothing()
        .to_owned();
    Entity::insert(ActiveModel::from(row.clone()))
        .on_conflict(known)
        .exec_without_returning(conn)
        .await?;
    let found = Entity::find_by_id((row.network.clone(), row.deposit_address.clone()))
        .one(conn)
        .await?;
    Ok(found == Some(row))
}
