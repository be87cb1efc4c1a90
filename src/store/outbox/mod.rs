//! The outbox: events and their deliveries, as rows of a log and of a queue.
//!
//! **Parties.** A flow changes something and writes, in the same transaction, an event and a delivery of it for each
//! active endpoint. A worker claims due deliveries under a lease, sends them while no transaction is open, and records
//! the tries. Several workers may share the queue. The owner of an endpoint reads the log, has deliveries sent again,
//! and switches the endpoint off. A test of endpoints is queued like an event, and whoever asked for it waits.
//!
//! **A delivery** is queued until it is delivered, failed or cancelled. Its row in `deliveries` is the log and stays; while
//! it is queued, and only then, it has another one in `delivery_queue`, which says from when on it is due (`next_at`) and
//! who has it. One that failed may be queued again, by its owner or in a recovery round ([`super::recovery`]). A claim
//! gives it a token and an end of its lease; until then it belongs to whoever holds the token. The try that arrives is
//! kept in the row of the log, those that fail have rows of their own (ADR-0018).
//!
//! **What always holds.**
//! - An event exists if and only if what caused it was committed. One fact is one event of its owner, by its deduplication
//!   key, which is the primary key of a table beside the events; one event has one delivery for each endpoint: they are written
//!   with it, or by a replay that holds it (ADR-0019).
//! - The body is rendered once, with the event. Every try sends these bytes under the id of the delivery, replays too; to
//!   an endpoint that nobody approved, the same bytes without what they say about persons.
//! - A delivery is queued if and only if it has a row in the queue: both change in one transaction, the row of the queue
//!   first when it goes, so that two of them wait for each other at that row and nowhere else.
//! - A try is recorded by whoever still holds the delivery under the token of the claim. After a lease has ended two
//!   workers may have sent the same delivery; one of them moves it on, and what the other one brings is dropped.
//! - The retry count moves with a recorded try. A crash may add a POST to the four, it takes none away.
//! - What is queued can be claimed at `next_at` or when its lease ends, so nothing waits for a process that is gone.
//! - What waits for an endpoint is cancelled after it was switched off or deleted, in batches: a backlog of any length
//!   makes no transaction long. A claim cancels what it meets of it, so nothing is sent to an endpoint that was off when
//!   the claim was committed.
//!
//! **What is not needed for correctness.** The wake-up of the worker after a commit, and [`next_due`]: it looks again
//! by itself. Handing back with [`release`]: leases end. The order in which due deliveries are claimed, the share of an
//! endpoint, the turns of owners, the endpoints that are left out: they are fairness and speed. The statements in the
//! words of PostgreSQL: those of SQLite say the same more slowly.

mod cancel;
mod due;
mod postgres;
mod rows;
mod sqlite;

use super::{Sealing, StoreError, columns, event_log, payer_keys::Keyring, queue, sealed};
use crate::domain::{
    ids::{ClientRowId, DeliveryId, EndpointId, EventId, OwnerId, PayerId},
    webhook::{ClaimedDelivery, DeliveryState, Wanted},
};
use chrono::{DateTime, Utc};
use entities::{
    deliveries, deliveries::Column as Delivery, delivery_queue, delivery_queue::Column, event_keys, events,
};
use rows::{Verdict, unleased};
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
    /// Client ID that the object belongs to.
    pub client: Option<ClientRowId>,
    /// Name on the wire.
    pub kind: String,
    /// The same fact has the same key.
    pub deduplication_key: String,
    /// Public id of the request that it is about.
    pub request_id: Option<String>,
    /// The bytes that are signed and sent.
    pub body: String,
    /// The payer with whose key the body is sealed; `None` seals it under a key of its own.
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
    /// Whether it was asked for, after the event was told.
    pub is_replay: bool,
    /// Now; the first try is due at once.
    pub now: DateTime<Utc>,
}

/// Writes an event unless the same fact has been told; returns whether it was written.
pub async fn insert_event(conn: &impl Sealing, event: &NewEvent) -> Result<bool, StoreError> {
    Ok(!insert_events(conn, std::slice::from_ref(event)).await?.is_empty())
}

/// Writes those events whose facts have not been told, with two statements for a batch; returns their ids.
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
                    body.ok_or_else(|| StoreError::Broken(anyhow::anyhow!("payer {payer} has no key")))?
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

/// The keys of the payers whom events name, which belong to the owners of the events.
async fn keys_of(conn: &impl Sealing, events: &[NewEvent]) -> Result<Keyring, StoreError> {
    let named = events
        .iter()
        .filter_map(|event| Some((&event.owner, event.payer.as_ref()?)));
    Keyring::of_owners(conn, named).await
}

/// Takes the keys of facts that have not been told; returns the events that tell them.
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

/// The event that tells an owner a fact, by its key.
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

/// Writes deliveries, due at once.
///
/// Those of events that were told before their endpoint existed need a transaction that holds the events, and has found no
/// such delivery since: nothing else keeps an event from having two deliveries to an endpoint.
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

/// Claims deliveries that are due, the longest waiting first; owners take turns, and endpoints of one owner among them.
///
/// They belong to the holder of the token until the lease ends; afterwards anybody may claim them again. Deliveries
/// whose endpoint is inactive or gone are cancelled instead.
///
/// The longest waiting of each endpoint are looked at, an equal part of twice the limit each. So a claim costs the same
/// however much waits behind them, nothing for what waits for endpoints that are left out, and an owner that comes late is
/// among the next claim however much others have queued.
pub async fn claim(conn: &impl ConnectionTrait, wanted: &Wanted) -> Result<Vec<ClaimedDelivery>, StoreError> {
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

/// Records finished tries and what follows them; returns the deliveries that were recorded. Needs a transaction.
///
/// A delivery that is no longer held under the token it was claimed with is left alone: its lease has ended and
/// somebody else tries it, or it was cancelled.
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
        let held = match is_postgres {
            true => postgres::finish(conn, &made).await?,
            false => sqlite::finish(conn, &made).await?,
        };
        let is_held = |(delivery, ..): &FinishedTry| {
            held.contains(&(delivery.id.as_str().to_owned(), delivery.lease_token.clone()))
        };
        let apart = made
            .into_iter()
            .filter(|(tried, _)| is_held(tried) && Verdict::of(tried) != Verdict::Arrived);
        let apart: Vec<_> = apart.map(|(_, row)| row).collect();
        if !apart.is_empty() {
            match is_postgres {
                true => postgres::add_tries(conn, apart).await?,
                false => sqlite::add_tries(conn, apart).await?,
            }
        }
        recorded.extend(held.into_iter().map(|(id, _)| DeliveryId(id)));
    }
    Ok(recorded)
}

/// Removes what is left of deliveries that have left the queue, which every claim walks past. SQLite leaves nothing.
pub async fn tidy(conn: &impl ConnectionTrait) -> Result<(), StoreError> {
    match conn.get_database_backend() {
        DbBackend::Postgres => postgres::tidy(conn).await,
        _ => Ok(()),
    }
}

/// Cancels a delivery that is held under the token of its claim: what it tells cannot be read any more.
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

/// Releases what is held under a token, so that it can be claimed at once; returns how many.
pub async fn release(conn: &impl ConnectionTrait, lease_token: &str) -> Result<u64, StoreError> {
    let result = unleased(delivery_queue::Entity::update_many())
        .filter(Column::LeaseToken.eq(lease_token))
        .exec(conn)
        .await?;
    Ok(result.rows_affected)
}

/// How many deliveries of an owner are due, counted up to a number. Those that wait for their next try are not due.
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

/// The claims under which deliveries of an endpoint are held.
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
