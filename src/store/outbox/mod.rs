//! The outbox: events and their deliveries, as rows of a log and of a queue.
//!
//! **Parties.** A flow changes something and writes, in the same transaction, an event and a delivery of the event for
//! each active endpoint. A worker claims due deliveries under a lease, sends them while no transaction is open, and
//! records the attempts. Several workers may share the queue. The owner of an endpoint reads the log, queues deliveries
//! again, and switches the endpoint off. A test of endpoints is queued like an event, and its caller waits for the
//! result.
//!
//! **A delivery** is queued until it is delivered, failed or cancelled. Its row in `deliveries` is the log and stays.
//! Only a queued delivery has a second row, in `delivery_queue`. That row contains the time at which the delivery is
//! due (`next_at`) and the claim that holds the delivery. A failed delivery may be queued again, by its owner or in a
//! recovery round ([`super::recovery`]). A claim gives a delivery a token and the end of a lease. Until then the
//! delivery belongs to the holder of the token. The row of the log contains the attempt that arrived in the first
//! round. All other attempts have rows of their own (ADR-0018).
//!
//! **Invariants.**
//! - An event exists if and only if its cause was committed. One fact is one event of its owner. The deduplication key
//!   ensures this; it is the primary key of a separate table. One event has one delivery for each endpoint: deliveries
//!   are written with the event, or by a replay that locks the event (ADR-0019).
//! - The body is rendered once, with the event. Every attempt sends these bytes under the id of the delivery, also in a
//!   replay. An unapproved endpoint receives the same bytes without personal data.
//! - A delivery is queued if and only if it has a row in the queue: both change in one transaction. A transaction that
//!   removes the row of the queue does so first, so that two such transactions wait for each other only at that row.
//! - An attempt is recorded only while the delivery is still held under the token of its claim. After a lease has
//!   ended, two workers may have sent the same delivery. One of them updates the delivery, and the result of the other
//!   is dropped.
//! - The retry count changes with a recorded attempt. A crash may add a POST to the four attempts, but never removes
//!   one.
//! - A queued delivery can be claimed at `next_at` or when its lease ends, so no delivery waits for a process that is
//!   gone.
//! - Deliveries of an endpoint that was switched off or deleted are cancelled afterwards, in batches: even a long
//!   backlog makes no transaction long. A claim cancels the deliveries of such an endpoint that it finds. So nothing is
//!   sent to an endpoint that was off when the claim was committed.
//!
//! **Not needed for correctness.** These parts serve fairness and speed. A commit wakes the worker, and [`next_due`]
//! says when to look again, but the worker also polls. [`release`] returns deliveries early, but leases end anyway.
//! Claims have an order, shares of endpoints, a rotation of owners, and excluded endpoints. The statements specific to
//! PostgreSQL do the same as those of SQLite, but faster.

mod cancel;
mod due;
mod postgres;
mod rows;
mod sqlite;

use super::{Sealing, StoreError, columns, event_log, payer_keys::Keyring, queue, sealed};
use crate::domain::{
    ids::{ClientRowId, DeliveryId, EndpointId, EventId, OwnerId, PayerId},
    webhook::{ClaimRequest, ClaimedDelivery, DeliveryState},
};
use chrono::{DateTime, Utc};
use entities::{
    deliveries, deliveries::Column as Delivery, delivery_queue, delivery_queue::Column, event_keys, events,
};
use rows::{AttemptVerdict, unleased};
use sea_orm::{
    ColumnTrait, ConnectionTrait, DbBackend, EntityTrait, QueryFilter, QuerySelect, QueryTrait,
    sea_query::{Expr, ExprTrait, OnConflict},
};
use std::collections::{HashMap, HashSet};

pub use cancel::{abandoned, cancel_queued_of_event, cancel_some_of_endpoint};
pub use due::next_due;
pub use rows::FinishedTry;

/// An event to be written.
#[derive(Debug, Clone)]
pub struct NewEvent {
    /// Fresh id.
    pub id: EventId,
    /// Platform or orchestrator.
    pub owner: OwnerId,
    /// Client ID that the object of the event belongs to.
    pub client: Option<ClientRowId>,
    /// Name in the API.
    pub kind: String,
    /// Deduplication key: two events of an owner that report the same fact have the same key.
    pub deduplication_key: String,
    /// Public id of its request.
    pub request_id: Option<String>,
    /// The bytes that are signed and sent.
    pub body: String,
    /// The payer whose key encrypts the body; with `None`, the body has a data key of its own.
    pub payer: Option<PayerId>,
    /// Now.
    pub now: DateTime<Utc>,
}

/// A delivery to be written.
#[derive(Debug, Clone)]
pub struct NewDelivery {
    /// Fresh id.
    pub id: DeliveryId,
    /// Event.
    pub event: EventId,
    /// Receiver.
    pub endpoint: EndpointId,
    /// Platform or orchestrator.
    pub owner: OwnerId,
    /// Whether it is a test delivery.
    pub is_test: bool,
    /// Whether the delivery was requested after the event was first sent.
    pub is_replay: bool,
    /// Now; the first attempt is due immediately.
    pub now: DateTime<Utc>,
}

/// Writes an event unless an event of the same fact exists; returns whether the event was written.
pub async fn insert_event(conn: &impl Sealing, event: &NewEvent) -> Result<bool, StoreError> {
    Ok(!insert_events(conn, std::slice::from_ref(event)).await?.is_empty())
}

/// Writes the events whose facts have no event yet, with two statements for a batch; returns the ids of the written
/// events.
pub async fn insert_events(conn: &impl Sealing, events: &[NewEvent]) -> Result<HashSet<EventId>, StoreError> {
    let mut written = HashSet::new();
    for events in events.chunks(columns::ROWS_MAX) {
        let new_ids = insert_keys(conn, events).await?;
        let ring = keys_of(conn, events).await?;
        let new = events.iter().filter(|event| new_ids.contains(&event.id));
        let rows = new.map(|event| {
            let place = event_log::body_place(event.owner.as_str(), event.id.as_str());
            let body = match &event.payer {
                None => sealed::seal(conn, event.body.clone(), place)?,
                Some(payer) => {
                    let body = ring.seal(conn, payer, event.body.clone(), place)?;
                    body.ok_or_else(|| {
                        StoreError::Broken(anyhow::anyhow!("the encryption key of payer {payer} is missing"))
                    })?
                }
            };
            Ok(events::ActiveModel::from(events::Model {
                id: event.id.0.clone(),
                owner_id: event.owner.0.clone(),
                client_row: event.client.as_ref().map(|client| client.0.clone()),
                kind: event.kind.clone(),
                deduplication_key: event.deduplication_key.clone(),
                request_id: event.request_id.clone(),
                body,
                created_at: event.now,
            }))
        });
        let rows = rows.collect::<Result<Vec<_>, StoreError>>()?;
        if !rows.is_empty() {
            events::Entity::insert_many(rows).exec_without_returning(conn).await?;
        }
        written.extend(new_ids);
    }
    Ok(written)
}

/// Encryption keys of the payers that events name. Each payer belongs to the owner of the event.
async fn keys_of(conn: &impl Sealing, events: &[NewEvent]) -> Result<Keyring, StoreError> {
    let named = events
        .iter()
        .filter_map(|event| Some((&event.owner, event.payer.as_ref()?)));
    Keyring::of_owners(conn, named).await
}

/// Stores the deduplication keys that are not used yet; returns the events of these keys, which have to be written.
async fn insert_keys(conn: &impl Sealing, events: &[NewEvent]) -> Result<HashSet<EventId>, StoreError> {
    let rows = events.iter().map(|event| {
        event_keys::ActiveModel::from(event_keys::Model {
            owner_id: event.owner.0.clone(),
            deduplication_key: event.deduplication_key.clone(),
            event_id: event.id.0.clone(),
        })
    });
    let mut insertion = event_keys::Entity::insert_many(rows).into_query();
    insertion
        .on_conflict(
            OnConflict::columns([event_keys::Column::OwnerId, event_keys::Column::DeduplicationKey])
                .do_nothing()
                .to_owned(),
        )
        .returning_col(event_keys::Column::EventId);
    let rows = conn.query_all(&insertion).await?;
    let ids = rows.iter().map(|row| row.try_get("", "event_id").map(EventId));
    Ok(ids.collect::<Result<_, _>>()?)
}

/// The event of an owner with a deduplication key.
pub async fn event_of_key(
    conn: &impl ConnectionTrait,
    owner: &OwnerId,
    key: &str,
) -> Result<Option<EventId>, StoreError> {
    let row = event_keys::Entity::find_by_id((owner.0.clone(), key.to_owned()))
        .one(conn)
        .await?;
    Ok(row.map(|row| EventId(row.event_id)))
}

/// Writes deliveries, due immediately.
///
/// No constraint prevents two deliveries of an event to one endpoint. For events that were written by an earlier
/// transaction, the caller must therefore first lock the events, and then check that the endpoint has no delivery of
/// them.
pub async fn insert_deliveries(conn: &impl ConnectionTrait, deliveries: &[NewDelivery]) -> Result<(), StoreError> {
    for deliveries in deliveries.chunks(columns::ROWS_MAX) {
        let rows = deliveries.iter().map(|delivery| deliveries::Model {
            id: delivery.id.0.clone(),
            event_id: delivery.event.0.clone(),
            endpoint_id: delivery.endpoint.0.clone(),
            owner_id: delivery.owner.0.clone(),
            state: DeliveryState::Queued.wire().to_owned(),
            retry_count: 0,
            is_test: delivery.is_test,
            is_replay: delivery.is_replay,
            created_at: delivery.now,
            finished_at: None,
            recovery_rounds: 0,
            recover_from: None,
            recover_at: None,
            missed: None,
            success_number: None,
            success_started_at: None,
            success_ended_at: None,
            success_status: None,
            success_response: None,
        });
        deliveries::Entity::insert_many(rows.clone().map(queue::new_delivery))
            .exec_without_returning(conn)
            .await?;
        queue::enqueue(conn, rows.zip(deliveries).map(|(row, delivery)| (row, delivery.now))).await?;
    }
    Ok(())
}

/// Claims due deliveries, the longest waiting first; owners alternate, and so do the endpoints of one owner.
///
/// The claimed deliveries belong to the holder of the token until the lease ends; afterwards any worker may claim them
/// again. Deliveries whose endpoint is inactive or deleted are cancelled instead.
///
/// A claim reads the longest waiting deliveries of each endpoint: about twice the limit in total, in equal shares for
/// the endpoints. The cost of a claim therefore does not depend on the backlog, and deliveries of excluded endpoints
/// cost nothing. An owner that arrives late is part of the next claim however much other owners have queued.
pub async fn claim(conn: &impl ConnectionTrait, wanted: &ClaimRequest) -> Result<Vec<ClaimedDelivery>, StoreError> {
    let (claimed, unsendable) = match conn.get_database_backend() {
        DbBackend::Postgres => postgres::claim(conn, wanted).await?,
        _ => sqlite::claim(conn, wanted).await?,
    };
    if !unsendable.is_empty() {
        cancel::cancel(
            conn,
            Column::Id
                .is_in(unsendable)
                .and(Column::LeaseToken.eq(wanted.lease_token.as_str())),
            wanted.now,
        )
        .await?;
    }
    Ok(claimed)
}

/// Records finished attempts, and the next state of their deliveries; returns the deliveries that were recorded. Needs
/// a transaction.
///
/// A delivery stays unchanged if its stored claim no longer has the token of the attempt: its lease has ended and
/// another worker sends it, or it was cancelled.
pub async fn finish_batch(conn: &impl Sealing, tries: &[FinishedTry]) -> Result<HashSet<DeliveryId>, StoreError> {
    let is_postgres = conn.get_database_backend() == DbBackend::Postgres;
    let mut recorded = HashSet::new();
    for tries in tries.chunks(columns::ROWS_MAX) {
        let bodies = tries
            .iter()
            .map(|(delivery, ..)| (&delivery.owner, delivery.body.as_str()));
        let ring = Keyring::for_texts_of(conn, bodies).await?;
        let made = tries
            .iter()
            .map(|tried| Ok((tried, rows::try_row(conn, &ring, tried)?)));
        let made = made.collect::<Result<Vec<_>, StoreError>>()?;
        let held = if is_postgres {
            postgres::finish(conn, &made).await?
        } else {
            sqlite::finish(conn, &made).await?
        };
        let is_held = |(delivery, ..): &FinishedTry| {
            held.contains(&(delivery.id.as_str().to_owned(), delivery.lease_token.clone()))
        };
        let apart = made
            .into_iter()
            .filter(|(tried, _)| is_held(tried) && AttemptVerdict::of(tried) != AttemptVerdict::Arrived);
        let apart: Vec<_> = apart.map(|(_, row)| row).collect();
        if !apart.is_empty() {
            if is_postgres {
                postgres::add_tries(conn, apart).await?
            } else {
                sqlite::add_tries(conn, apart).await?
            }
        }
        recorded.extend(held.into_iter().map(|(id, _)| DeliveryId(id)));
    }
    Ok(recorded)
}

/// Vacuums the queue table: removes the dead rows of deliveries that have left the queue, which every claim would
/// otherwise scan. Does nothing on SQLite, which has no dead rows.
pub async fn tidy(conn: &impl ConnectionTrait) -> Result<(), StoreError> {
    match conn.get_database_backend() {
        DbBackend::Postgres => postgres::tidy(conn).await,
        _ => Ok(()),
    }
}

/// Cancels a delivery that is held under the token of its claim: the data of its event can no longer be read.
pub async fn cancel_claimed(
    conn: &impl ConnectionTrait,
    claimed: &ClaimedDelivery,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let held = Column::Id
        .eq(claimed.id.as_str())
        .and(Column::LeaseToken.eq(claimed.lease_token.as_str()));
    cancel::cancel(conn, held, now).await?;
    Ok(())
}

/// Releases the deliveries held under a token, so that they can be claimed immediately; returns how many.
pub async fn release(conn: &impl ConnectionTrait, lease_token: &str) -> Result<u64, StoreError> {
    let result = unleased(delivery_queue::Entity::update_many())
        .filter(Column::LeaseToken.eq(lease_token))
        .exec(conn)
        .await?;
    Ok(result.rows_affected)
}

/// How many deliveries of an owner are due, counted up to a number. Deliveries that wait for their next attempt are not
/// due.
pub async fn count_due(
    conn: &impl ConnectionTrait,
    owner: &OwnerId,
    now: DateTime<Utc>,
    up_to: u64,
) -> Result<u64, StoreError> {
    let due = delivery_queue::Entity::find()
        .select_only()
        .column(Column::Id)
        .filter(Column::OwnerId.eq(owner.as_str()))
        .filter(Column::NextAt.lte(now))
        .limit(up_to);
    let ids: Vec<String> = due.into_tuple().all(conn).await?;
    Ok(u64::try_from(ids.len()).unwrap_or(u64::MAX))
}

/// How many deliveries of an event are in each state.
pub async fn states_of_event(
    conn: &impl ConnectionTrait,
    owner: &OwnerId,
    event: &EventId,
) -> Result<HashMap<DeliveryState, u64>, StoreError> {
    let rows: Vec<(String, i64)> = deliveries::Entity::find()
        .select_only()
        .column(Delivery::State)
        .column_as(Expr::cust("COUNT(*)"), "count")
        .filter(Delivery::OwnerId.eq(owner.as_str()))
        .filter(Delivery::EventId.eq(event.as_str()))
        .group_by(Delivery::State)
        .into_tuple()
        .all(conn)
        .await?;
    let read = |(state, count): (String, i64)| {
        let state = columns::known("state", &state, DeliveryState::from_wire)?;
        Ok((state, columns::number("count", count)?))
    };
    rows.into_iter().map(read).collect()
}

/// The claims that hold deliveries of an endpoint.
pub async fn claims_on_endpoint(
    conn: &impl ConnectionTrait,
    owner: &OwnerId,
    endpoint: &EndpointId,
    now: DateTime<Utc>,
) -> Result<Vec<String>, StoreError> {
    let tokens = delivery_queue::Entity::find()
        .select_only()
        .column(Column::LeaseToken)
        .distinct()
        .filter(Column::OwnerId.eq(owner.as_str()))
        .filter(Column::EndpointId.eq(endpoint.as_str()))
        .filter(Column::LeaseToken.is_not_null())
        .filter(Column::LeaseUntil.gt(now))
        .into_tuple()
        .all(conn)
        .await?;
    Ok(tokens)
}
