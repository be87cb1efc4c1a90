//! The log of events: reads the log, and deletes old events together with their deliveries.

use super::{
    Scope, Sealing, StoreError, columns,
    payer_keys::{Keyring, PayerText},
};
use crate::{
    domain::ids::{ClientRowId, EventId, OwnerId},
    ports::sealer::EncryptionContext,
};
use chrono::{DateTime, TimeDelta, Utc};
use entities::{client_ids, deliveries, deliveries::Column as Delivery, delivery_attempts, event_keys, events};
use event_keys::Column as Key;
use events::Column as Event;
use sea_orm::{
    ColumnTrait, Condition, ConnectionTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect, Select,
    sea_query::{Expr, ExprTrait, JoinType, LockBehavior, LockType, Query, SelectStatement},
};
use std::collections::HashSet;

/// Maximum difference between the time in the id of an event and the recorded time of its creation. Both are read from
/// the clock, shortly one after the other.
const DRAWN_APART: TimeDelta = TimeDelta::minutes(1);

/// Prefix of the deduplication keys of test events.
const TEST_KEY: &str = "test:";

/// An event of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventRecord {
    /// Row.
    pub id: EventId,
    /// Client ID that the object of the event belongs to.
    pub client: Option<ClientRowId>,
    /// Public text of this client ID.
    pub client_id: Option<String>,
    /// Name in the API.
    pub kind: String,
    /// Public id of its request.
    pub request_id: Option<String>,
    /// The bytes that are signed and sent; [`PayerText::Erased`] once the payer is erased.
    pub body: PayerText,
    /// Whether the event is the sample event of an endpoint test.
    pub is_test: bool,
    /// Time of creation.
    pub created_at: DateTime<Utc>,
}

impl EventRecord {
    /// Whether the payer of the event has been erased since.
    pub fn is_erased(&self) -> bool {
        self.body == PayerText::Erased
    }
}

/// Filters of the events; an event must match all of them.
#[derive(Debug, Clone, Default)]
pub struct EventFilter {
    /// Name in the API.
    pub kind: Option<String>,
    /// Public id of a request.
    pub request_id: Option<String>,
    /// From this time on.
    pub since: Option<DateTime<Utc>>,
    /// Up to this time.
    pub until: Option<DateTime<Utc>>,
    /// Only events before this one.
    pub before: Option<EventId>,
    /// Rows at most.
    pub limit: u64,
}

/// Events that a scope may see.
fn owned(scope: &Scope) -> Condition {
    Condition::all()
        .add(Event::OwnerId.eq(scope.platform.as_str()))
        .add_option(scope.client.as_ref().map(|client| Event::ClientRow.eq(client.as_str())))
}

type EventRow = (
    String,
    Option<String>,
    Option<String>,
    String,
    Option<String>,
    String,
    String,
    DateTime<Utc>,
);

fn select_events(scope: &Scope) -> Select<events::Entity> {
    events::Entity::find()
        .select_only()
        .columns([Event::Id, Event::ClientRow])
        .column(client_ids::Column::ClientId)
        .columns([
            Event::Kind,
            Event::RequestId,
            Event::Body,
            Event::DeduplicationKey,
            Event::CreatedAt,
        ])
        .join(
            JoinType::LeftJoin,
            events::Entity::belongs_to(client_ids::Entity)
                .from(Event::ClientRow)
                .to(client_ids::Column::Id)
                .into(),
        )
        .filter(owned(scope))
}

/// Encryption context of the body of an event.
pub fn body_place<'a>(owner: &'a str, event: &'a str) -> EncryptionContext<'a> {
    EncryptionContext {
        column: "events.body",
        owner,
        row: event,
    }
}

async fn records(conn: &impl Sealing, scope: &Scope, rows: Vec<EventRow>) -> Result<Vec<EventRecord>, StoreError> {
    let owner = OwnerId::from(&scope.platform);
    let texts = rows.iter().map(|(_, _, _, _, _, body, ..)| (&owner, body.as_str()));
    let ring = Keyring::for_texts_of(conn, texts).await?;
    rows.into_iter()
        .map(|row| event_record(conn, &ring, scope, row))
        .collect()
}

fn event_record(conn: &impl Sealing, ring: &Keyring, scope: &Scope, row: EventRow) -> Result<EventRecord, StoreError> {
    let (id, client, client_id, kind, request_id, body, deduplication_key, created_at) = row;
    let body = ring.open(conn, body, body_place(scope.platform.as_str(), &id))?;
    Ok(EventRecord {
        id: EventId(id),
        client: client.map(ClientRowId),
        client_id,
        kind,
        request_id,
        body,
        is_test: deduplication_key.starts_with(TEST_KEY),
        created_at,
    })
}

/// Events of a span of time. The bounds of the id exclude no event that matches the time; they only select a part of
/// the index.
fn created(since: Option<DateTime<Utc>>, until: Option<DateTime<Utc>>) -> Condition {
    let earliest = since.and_then(|since| since.checked_sub_signed(DRAWN_APART));
    let latest = until.and_then(|until| until.checked_add_signed(DRAWN_APART));
    Condition::all()
        .add_option(since.map(|since| Event::CreatedAt.gte(since)))
        .add_option(until.map(|until| Event::CreatedAt.lte(until)))
        .add_option(earliest.map(|time| Event::Id.gte(EventId::first_at(time).as_str())))
        .add_option(latest.map(|time| Event::Id.lt(EventId::first_at(time).as_str())))
}

fn page(scope: &Scope, filter: &EventFilter) -> Select<events::Entity> {
    let matches = Condition::all()
        .add_option(filter.kind.as_ref().map(|kind| Event::Kind.eq(kind)))
        .add_option(filter.request_id.as_ref().map(|id| Event::RequestId.eq(id)))
        .add(created(filter.since, filter.until))
        .add_option(filter.before.as_ref().map(|id| Event::Id.lt(id.as_str())));
    select_events(scope)
        .filter(matches)
        .order_by_desc(Event::Id)
        .limit(filter.limit)
}

/// Events, the newest first.
pub async fn events(conn: &impl Sealing, scope: &Scope, filter: &EventFilter) -> Result<Vec<EventRecord>, StoreError> {
    let rows: Vec<EventRow> = page(scope, filter).into_tuple().all(conn).await?;
    records(conn, scope, rows).await
}

fn ids(scope: &Scope, after: Option<&EventId>, kind: Option<&String>, limit: u64) -> Select<events::Entity> {
    let matches = owned(scope)
        .add_option(after.map(|after| Event::Id.gt(after.as_str())))
        .add_option(kind.map(|kind| Event::Kind.eq(kind)));
    events::Entity::find()
        .select_only()
        .column(Event::Id)
        .filter(matches)
        .order_by_asc(Event::Id)
        .limit(limit)
}

/// Ids of the events after a given event, the oldest first; an empty list of kinds means all kinds. Bodies are not
/// read: an index contains the ids of each kind in order.
pub async fn ids_after(
    conn: &impl ConnectionTrait,
    scope: &Scope,
    after: Option<&EventId>,
    kinds: &[String],
    limit: u64,
) -> Result<Vec<EventId>, StoreError> {
    let searches: Vec<Option<&String>> = match kinds {
        [] => vec![None],
        _ => kinds.iter().map(Some).collect(),
    };
    let mut found: Vec<String> = Vec::new();
    for kind in searches {
        let of_kind: Vec<String> = ids(scope, after, kind, limit).into_tuple().all(conn).await?;
        found.extend(of_kind);
    }
    found.sort_unstable();
    found.dedup();
    found.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    Ok(found.into_iter().map(EventId).collect())
}

/// Events by their ids, the oldest first.
pub async fn events_by_id(conn: &impl Sealing, scope: &Scope, ids: &[EventId]) -> Result<Vec<EventRecord>, StoreError> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let rows: Vec<EventRow> = select_events(scope)
        .filter(Event::Id.is_in(ids.iter().map(EventId::as_str)))
        .order_by_asc(Event::Id)
        .into_tuple()
        .all(conn)
        .await?;
    records(conn, scope, rows).await
}

/// Events of a span of time that may be sent again, the oldest first. Sample events of endpoint tests are excluded.
pub async fn replayable(
    conn: &impl Sealing,
    scope: &Scope,
    since: DateTime<Utc>,
    until: Option<DateTime<Utc>>,
    after: Option<&EventId>,
    limit: u64,
) -> Result<Vec<EventRecord>, StoreError> {
    let matches = Condition::all()
        .add(created(Some(since), until))
        .add(Event::DeduplicationKey.not_like(format!("{TEST_KEY}%")))
        .add_option(after.map(|id| Event::Id.gt(id.as_str())));
    let rows: Vec<EventRow> = select_events(scope)
        .filter(matches)
        .order_by_asc(Event::Id)
        .limit(limit)
        .into_tuple()
        .all(conn)
        .await?;
    records(conn, scope, rows).await
}

/// Finds an event.
pub async fn find_event(conn: &impl Sealing, scope: &Scope, id: &EventId) -> Result<Option<EventRecord>, StoreError> {
    let row: Option<EventRow> = select_events(scope)
        .filter(Event::Id.eq(id.as_str()))
        .into_tuple()
        .one(conn)
        .await?;
    Ok(records(conn, scope, row.into_iter().collect()).await?.pop())
}

/// The newest event of a scope whose id was created before a time; with `None`, the newest event of the scope.
pub async fn newest_event(
    conn: &impl ConnectionTrait,
    scope: &Scope,
    before: Option<DateTime<Utc>>,
) -> Result<Option<EventId>, StoreError> {
    let drawn = before.map(|time| Event::Id.lt(EventId::first_at(time).as_str()));
    let id: Option<String> = events::Entity::find()
        .select_only()
        .column(Event::Id)
        .filter(owned(scope).add_option(drawn))
        .order_by_desc(Event::Id)
        .into_tuple()
        .one(conn)
        .await?;
    Ok(id.map(EventId))
}

/// Locks events until the transaction ends, so that no other transaction deletes or locks them; returns those that
/// still exist. Call this before looking up which deliveries exist and writing new ones: the lock ensures one delivery
/// of an event for each endpoint.
pub async fn hold(conn: &impl ConnectionTrait, scope: &Scope, ids: &[EventId]) -> Result<HashSet<EventId>, StoreError> {
    let held: Vec<String> = events::Entity::find()
        .select_only()
        .column(Event::Id)
        .filter(owned(scope))
        .filter(Event::Id.is_in(ids.iter().map(EventId::as_str)))
        .order_by_asc(Event::Id)
        .lock(LockType::NoKeyUpdate)
        .into_tuple()
        .all(conn)
        .await?;
    Ok(held.into_iter().map(EventId).collect())
}

/// Subquery for deliveries of the outer query's event that forbid to delete the event: those that are queued, that wait
/// for a recovery round, or that were finished at or after `cutoff`.
fn kept_deliveries(cutoff: DateTime<Utc>) -> SelectStatement {
    Query::select()
        .expr(Expr::val(1))
        .from(deliveries::Entity)
        .and_where(Expr::col((deliveries::Entity, Delivery::OwnerId)).equals((events::Entity, Event::OwnerId)))
        .and_where(Expr::col((deliveries::Entity, Delivery::EventId)).equals((events::Entity, Event::Id)))
        .and_where(
            Expr::col((deliveries::Entity, Delivery::FinishedAt))
                .is_null()
                .or(Expr::col((deliveries::Entity, Delivery::FinishedAt)).gte(cutoff))
                .or(Expr::cust(
                    "deliveries.state = 'failed' AND deliveries.recover_at IS NOT NULL",
                )),
        )
        .to_owned()
}

/// Condition for deletable events: they were created before `cutoff`, and none of their deliveries forbids the deletion
/// ([`kept_deliveries`]).
fn forgettable(cutoff: DateTime<Utc>) -> Condition {
    Condition::all()
        .add(Event::CreatedAt.lt(cutoff))
        .add(Expr::exists(kept_deliveries(cutoff)).not())
}

/// Owners and ids of a batch of deletable events, oldest first, whose ids were created before `until`. The query reads
/// the table of deduplication keys, because it lists the events of all owners in one order.
fn oldest(cutoff: DateTime<Utc>, until: DateTime<Utc>, limit: u64) -> Select<event_keys::Entity> {
    let event = event_keys::Entity::belongs_to(events::Entity)
        .from((Key::OwnerId, Key::EventId))
        .to((Event::OwnerId, Event::Id));
    event_keys::Entity::find()
        .select_only()
        .columns([Key::OwnerId, Key::EventId])
        .join(JoinType::InnerJoin, event.into())
        // The id of an event is created shortly before the event, so this condition excludes no deletable event. It
        // only narrows the index range.
        .filter(Key::EventId.lt(EventId::first_at(until).as_str()))
        .filter(forgettable(cutoff))
        .order_by_asc(Key::EventId)
        .limit(limit)
}

/// Deletes events that were created before `cutoff` and have ids from before `until`, with their deliveries and
/// attempts. Deletes at most `limit` events; returns how many. Needs a transaction.
///
/// An event stays while one of its deliveries is queued, waits for a recovery round, or was finished after `cutoff`.
pub async fn forget(
    conn: &impl ConnectionTrait,
    cutoff: DateTime<Utc>,
    until: DateTime<Utc>,
    limit: u64,
) -> Result<u64, StoreError> {
    let chosen: Vec<(String, String)> = oldest(cutoff, until, limit).into_tuple().all(conn).await?;
    let mut gone = 0;
    for (owner, ids) in columns::by_owner(chosen) {
        gone += forget_of(conn, &owner, ids, cutoff).await?;
    }
    Ok(gone)
}

/// Deletes the given events of an owner, except events that a transaction has locked or that a delivery still needs.
async fn forget_of(
    conn: &impl ConnectionTrait,
    owner: &str,
    ids: Vec<String>,
    cutoff: DateTime<Utc>,
) -> Result<u64, StoreError> {
    let these = |columns: &[Event], ids: Vec<String>| {
        events::Entity::find()
            .select_only()
            .columns(columns.iter().copied())
            .filter(Event::OwnerId.eq(owner))
            .filter(Event::Id.is_in(ids))
    };
    let locked = these(&[Event::Id], ids)
        .order_by_asc(Event::Id)
        .lock_with_behavior(LockType::Update, LockBehavior::SkipLocked)
        .into_tuple()
        .all(conn)
        .await?;
    // A delivery may have been written before the lock was taken, so the condition is checked again.
    let free = these(&[Event::Id, Event::DeduplicationKey], locked).filter(forgettable(cutoff));
    let free: Vec<(String, String)> = free.into_tuple().all(conn).await?;
    if free.is_empty() {
        return Ok(0);
    }
    let (ids, facts): (Vec<String>, Vec<String>) = free.into_iter().unzip();
    let of_event = Condition::all()
        .add(Delivery::OwnerId.eq(owner))
        .add(Delivery::EventId.is_in(ids.iter().map(String::as_str)));
    let old = Query::select()
        .column(Delivery::Id)
        .from(deliveries::Entity)
        .cond_where(of_event.clone())
        .to_owned();
    delivery_attempts::Entity::delete_many()
        .filter(delivery_attempts::Column::OwnerId.eq(owner))
        .filter(delivery_attempts::Column::DeliveryId.in_subquery(old))
        .exec(conn)
        .await?;
    deliveries::Entity::delete_many().filter(of_event).exec(conn).await?;
    delete_keys(conn, owner, facts).await?;
    let gone = events::Entity::delete_many()
        .filter(Event::OwnerId.eq(owner))
        .filter(Event::Id.is_in(ids))
        .exec(conn)
        .await?;
    Ok(gone.rows_affected)
}

/// Deletes deduplication keys of an owner; returns how many.
async fn delete_keys(conn: &impl ConnectionTrait, owner: &str, facts: Vec<String>) -> Result<u64, StoreError> {
    let gone = event_keys::Entity::delete_many()
        .filter(Key::OwnerId.eq(owner))
        .filter(Key::DeduplicationKey.is_in(facts))
        .exec(conn)
        .await?;
    Ok(gone.rows_affected)
}

/// Deletes the deduplication keys of events that were created before a time and no longer exist, at most `limit`;
/// returns how many.
pub async fn forget_keys(conn: &impl ConnectionTrait, before: DateTime<Utc>, limit: u64) -> Result<u64, StoreError> {
    let present = Query::select()
        .expr(Expr::val(1))
        .from(events::Entity)
        .and_where(Expr::col((events::Entity, Event::OwnerId)).equals((event_keys::Entity, Key::OwnerId)))
        .and_where(Expr::col((events::Entity, Event::Id)).equals((event_keys::Entity, Key::EventId)))
        .to_owned();
    let left: Vec<(String, String)> = event_keys::Entity::find()
        .select_only()
        .columns([Key::OwnerId, Key::DeduplicationKey])
        .filter(Key::EventId.lt(EventId::first_at(before).as_str()))
        .filter(Expr::exists(present).not())
        .order_by_asc(Key::EventId)
        .limit(limit)
        .into_tuple()
        .all(conn)
        .await?;
    let mut gone = 0;
    for (owner, facts) in columns::by_owner(left) {
        gone += delete_keys(conn, &owner, facts).await?;
    }
    Ok(gone)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{domain::ids::PlatformId, store::plans};
    use sea_orm::QueryTrait;

    fn scope() -> Scope {
        Scope {
            platform: PlatformId("platform".into()),
            client: None,
        }
    }

    #[tokio::test]
    async fn event_ids_after_one_are_read_from_the_index_of_their_kind_in_sqlite() {
        plans::with_database(async |db| {
            let after = EventId("after".into());
            let kind = "payment.confirmed".to_owned();
            for (kind, wanted) in [
                (None, "COVERING INDEX sqlite_autoindex_events_1 (owner_id=? AND id>?)"),
                (
                    Some(&kind),
                    "COVERING INDEX events_kind_idx (owner_id=? AND kind=? AND id>?)",
                ),
            ] {
                let steps = plans::steps(db, &ids(&scope(), Some(&after), kind, 100).into_query()).await;
                assert!(steps.contains(wanted) && !steps.contains("B-TREE"), "{steps}");
            }
        })
        .await;
    }

    #[tokio::test]
    async fn old_events_of_all_owners_are_read_in_the_order_of_their_keys() {
        plans::with_database(async |db| {
            let (cutoff, until) = (DateTime::UNIX_EPOCH, DateTime::UNIX_EPOCH);
            let steps = plans::steps(db, &oldest(cutoff, until, 100).into_query()).await;
            for wanted in [
                "event_keys_event_idx (event_id<?)",
                "events_1 (owner_id=? AND id=?)",
                "deliveries_event_endpoint_key (owner_id=? AND event_id=?)",
            ] {
                assert!(steps.contains(wanted), "{wanted}:\n{steps}");
            }
            assert!(!steps.contains("B-TREE"), "{steps}");
        })
        .await;
    }

    #[tokio::test]
    async fn a_time_span_of_events_is_one_index_range_in_sqlite() {
        plans::with_database(async |db| {
            let span = EventFilter {
                since: Some(DateTime::UNIX_EPOCH),
                until: Some(DateTime::UNIX_EPOCH),
                limit: 21,
                ..EventFilter::default()
            };
            let steps = plans::steps(db, &page(&scope(), &span).into_query()).await;
            let wanted = "sqlite_autoindex_events_1 (owner_id=? AND id>? AND id<?)";
            assert!(steps.contains(wanted) && !steps.contains("B-TREE"), "{steps}");
        })
        .await;
    }
}
