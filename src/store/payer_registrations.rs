//! Registrations of payers that the partner may have accepted although no payer row exists yet. Source: ADR-0021.

use super::{StoreError, columns};
use crate::domain::{ids::PlatformId, payer::PayerRegistration};
use chrono::{DateTime, Utc};
use entities::payer_registrations::{ActiveModel, Column, Entity, Model};
use sea_orm::{
    ColumnTrait, Condition, ConnectionTrait, EntityTrait, QueryFilter, QuerySelect,
    sea_query::{Expr, LockType, OnConflict},
};

fn from_row(row: Model) -> PayerRegistration {
    PayerRegistration {
        partner_key: row.partner_key,
        platform: PlatformId(row.platform_id),
        in_flight_until: row.in_flight_until,
        is_erasing: row.erasing_at.is_some(),
    }
}

fn of(registration: &PayerRegistration) -> Condition {
    owned(&registration.platform, &registration.partner_key)
}

fn owned(platform: &PlatformId, partner_key: &str) -> Condition {
    Condition::all()
        .add(Column::PlatformId.eq(platform.as_str()))
        .add(Column::PartnerKey.eq(partner_key))
}

/// Records that the service is about to register a payer at the partner, and when to erase the payer there if no payer
/// row is written by then. Returns `false` if this registration is already recorded.
pub async fn note(
    conn: &impl ConnectionTrait,
    registration: &PayerRegistration,
    forget_at: DateTime<Utc>,
) -> Result<bool, StoreError> {
    let row = Model {
        partner_key: registration.partner_key.clone(),
        platform_id: registration.platform.0.clone(),
        in_flight_until: registration.in_flight_until,
        erasing_at: None,
        ask_at: Some(forget_at),
    };
    let known = OnConflict::column(Column::PartnerKey).do_nothing().to_owned();
    let insertion = Entity::insert(ActiveModel::from(row)).on_conflict(known);
    Ok(insertion.exec_without_returning(conn).await? == 1)
}

/// Finds a registration by the partner's idempotency key of the payer.
pub async fn find(
    conn: &impl ConnectionTrait,
    platform: &PlatformId,
    partner_key: &str,
) -> Result<Option<PayerRegistration>, StoreError> {
    let found = Entity::find().filter(owned(platform, partner_key)).one(conn).await?;
    Ok(found.map(from_row))
}

/// Reads a registration and locks it until the transaction ends.
pub async fn lock(
    conn: &impl ConnectionTrait,
    platform: &PlatformId,
    partner_key: &str,
) -> Result<Option<PayerRegistration>, StoreError> {
    let found = Entity::find()
        .filter(owned(platform, partner_key))
        .lock(LockType::NoKeyUpdate)
        .one(conn)
        .await?;
    Ok(found.map(from_row))
}

/// Records until when a call about a registration may be in flight. Needs the lock.
pub async fn set_in_flight(
    conn: &impl ConnectionTrait,
    registration: &PayerRegistration,
    until: DateTime<Utc>,
) -> Result<(), StoreError> {
    Entity::update_many()
        .col_expr(Column::InFlightUntil, Expr::value(until))
        .filter(of(registration))
        .exec(conn)
        .await?;
    Ok(())
}

/// Records that the call recorded with `until` is no longer in flight, unless another call may be in flight for longer.
pub async fn clear_in_flight(
    conn: &impl ConnectionTrait,
    registration: &PayerRegistration,
    until: DateTime<Utc>,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    Entity::update_many()
        .col_expr(Column::InFlightUntil, Expr::value(now))
        .filter(of(registration))
        .filter(Column::InFlightUntil.lte(until))
        .exec(conn)
        .await?;
    Ok(())
}

/// Records that a registration is to be erased, and when the service calls the partner. Needs the lock.
pub async fn mark_erasing(
    conn: &impl ConnectionTrait,
    registration: &PayerRegistration,
    now: DateTime<Utc>,
    ask_at: DateTime<Utc>,
) -> Result<(), StoreError> {
    Entity::update_many()
        .col_expr(Column::ErasingAt, Expr::value(now))
        .col_expr(Column::AskAt, Expr::value(ask_at))
        .filter(of(registration))
        .exec(conn)
        .await?;
    Ok(())
}

/// Deletes a registration that is no longer needed, because a payer row exists or the partner has no data of the
/// person.
pub async fn remove(conn: &impl ConnectionTrait, registration: &PayerRegistration) -> Result<(), StoreError> {
    Entity::delete_many().filter(of(registration)).exec(conn).await?;
    Ok(())
}

/// Deletes a registration without a payer row, unless another call may be in flight or the registration is being
/// erased.
pub async fn remove_alone(
    conn: &impl ConnectionTrait,
    platform: &PlatformId,
    partner_key: &str,
    until: DateTime<Utc>,
) -> Result<(), StoreError> {
    Entity::delete_many()
        .filter(owned(platform, partner_key))
        .filter(Column::InFlightUntil.lte(until))
        .filter(Column::ErasingAt.is_null())
        .exec(conn)
        .await?;
    Ok(())
}

/// Returns registrations whose erasure at the partner is due, the longest waiting first, and postpones their next call.
/// Needs a transaction.
pub async fn take_due(
    conn: &impl ConnectionTrait,
    now: DateTime<Utc>,
    again_at: DateTime<Utc>,
    limit: u64,
) -> Result<Vec<PayerRegistration>, StoreError> {
    let postponement = columns::Postponement { now, again_at };
    let rows = columns::take_due::<Entity>(
        conn,
        Column::PartnerKey,
        Column::AskAt,
        Condition::all(),
        postponement,
        limit,
        |row| &row.partner_key,
    )
    .await?;
    Ok(rows.into_iter().map(from_row).collect())
}
