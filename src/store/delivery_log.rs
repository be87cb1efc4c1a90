//! The log of deliveries: reads the log, and queues its deliveries again.

use super::{
    Sealing, StoreError, columns,
    payer_keys::{Keyring, PayerText},
    queue,
};
use crate::{
    domain::{
        ids::{DeliveryId, EndpointId, EventId, OwnerId, PlatformId},
        webhook::{DeliveryState, TryOutcome},
    },
    ports::sealer::EncryptionContext,
};
use chrono::{DateTime, TimeDelta, Utc};
use entities::{
    deliveries, deliveries::Column as Delivery, delivery_attempts, delivery_queue,
    delivery_queue::Column as QueueColumn, events, events::Column as Event,
};
use sea_orm::{
    ColumnTrait, Condition, ConnectionTrait, EntityTrait, JoinType, QueryFilter, QueryOrder, QuerySelect, QueryTrait,
    Select, SelectTwo, sea_query::Expr,
};
use std::collections::HashMap;

/// A delivery with its attempts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryRecord {
    /// Row.
    pub id: DeliveryId,
    /// Receiver, which may have been deleted.
    pub endpoint: EndpointId,
    /// State.
    pub state: DeliveryState,
    /// Number of retries that were scheduled.
    pub retry_count: u32,
    /// Earliest time of the next attempt; `None` for a delivery that is not queued.
    pub next_at: Option<DateTime<Utc>>,
    /// Whether it is a test delivery.
    pub is_test: bool,
    /// When it left the queue.
    pub finished_at: Option<DateTime<Utc>>,
    /// Number of recovery rounds that began after the first four attempts.
    pub recovery_rounds: u32,
    /// Latest time of the next recovery round; `None` for a delivery that has not failed or has no round left.
    pub next_round_at: Option<DateTime<Utc>>,
    /// Attempts, the first one first.
    pub tries: Vec<TryRecord>,
}

/// A recorded attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TryRecord {
    /// Number, from 1.
    pub number: u32,
    /// Its outcome.
    pub outcome: TryOutcome,
}

/// A delivery of the log, with its event but without its attempts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedDelivery {
    /// The delivery; its attempts are not read.
    pub delivery: DeliveryRecord,
    /// Event.
    pub event: EventId,
    /// Name of the event.
    pub kind: String,
    /// Whether the delivery was queued again, or created later than its event: because its owner requested it, or for a
    /// recovery round.
    pub is_replay: bool,
    /// Time of creation.
    pub created_at: DateTime<Utc>,
}

/// Filters of the deliveries; a delivery must match all of them.
#[derive(Debug, Clone, Default)]
pub struct DeliveryFilter {
    /// One event.
    pub event: Option<EventId>,
    /// One endpoint.
    pub endpoint: Option<EndpointId>,
    /// State.
    pub state: Option<DeliveryState>,
    /// Only deliveries before this one.
    pub before: Option<DeliveryId>,
    /// Rows at most.
    pub limit: u64,
}

/// Encryption context of the response to an attempt.
pub(super) fn response_place<'a>(owner: &'a str, attempt: &'a str) -> EncryptionContext<'a> {
    EncryptionContext {
        column: "delivery_attempts.response",
        owner,
        row: attempt,
    }
}

/// A delivery, and its row of the queue while the delivery is queued.
type DeliveryRow = (deliveries::Model, Option<delivery_queue::Model>);

/// Deliveries with their rows of the queue.
fn with_queue() -> SelectTwo<deliveries::Entity, delivery_queue::Entity> {
    let queued = deliveries::Entity::belongs_to(delivery_queue::Entity)
        .from((Delivery::OwnerId, Delivery::Id))
        .to((QueueColumn::OwnerId, QueueColumn::Id));
    deliveries::Entity::find()
        .join(JoinType::LeftJoin, queued.into())
        .select_also(delivery_queue::Entity)
}

/// The condition for a state. Pending deliveries are found through the queue, and failed or cancelled ones through an
/// index. No index contains delivered ones, because each success would have to update that index.
fn in_state(
    platform: &PlatformId,
    endpoints: Option<&[EndpointId]>,
    filter: &DeliveryFilter,
    state: DeliveryState,
) -> Expr {
    match state {
        DeliveryState::Delivered => Delivery::State.eq(state.wire()),
        DeliveryState::Failed | DeliveryState::Cancelled => Delivery::Missed.eq(state.wire()),
        DeliveryState::Queued => {
            let matches = Condition::all()
                .add(QueueColumn::OwnerId.eq(platform.as_str()))
                .add_option(endpoints.map(|own| QueueColumn::EndpointId.is_in(own.iter().map(EndpointId::as_str))))
                .add_option(filter.event.as_ref().map(|id| QueueColumn::EventId.eq(id.as_str())))
                .add_option(
                    filter
                        .endpoint
                        .as_ref()
                        .map(|id| QueueColumn::EndpointId.eq(id.as_str())),
                )
                .add_option(filter.before.as_ref().map(|id| QueueColumn::Id.lt(id.as_str())));
            let queued = delivery_queue::Entity::find()
                .select_only()
                .column(QueueColumn::Id)
                .filter(matches)
                .order_by_desc(QueueColumn::Id)
                .limit(filter.limit);
            Delivery::Id.in_subquery(queued.into_query())
        }
    }
}

fn page(
    platform: &PlatformId,
    endpoints: Option<&[EndpointId]>,
    filter: &DeliveryFilter,
) -> SelectTwo<deliveries::Entity, delivery_queue::Entity> {
    let matches = seen_by(platform, endpoints)
        .add_option(filter.event.as_ref().map(|id| Delivery::EventId.eq(id.as_str())))
        .add_option(filter.endpoint.as_ref().map(|id| Delivery::EndpointId.eq(id.as_str())))
        .add_option(filter.state.map(|state| in_state(platform, endpoints, filter, state)))
        .add_option(filter.before.as_ref().map(|id| Delivery::Id.lt(id.as_str())));
    with_queue()
        .filter(matches)
        .order_by_desc(Delivery::Id)
        .limit(filter.limit)
}

/// Deliveries of the endpoints that a caller may see, the newest first; with `None`, of all endpoints of the platform.
pub async fn deliveries(
    conn: &impl ConnectionTrait,
    platform: &PlatformId,
    endpoints: Option<&[EndpointId]>,
    filter: &DeliveryFilter,
) -> Result<Vec<LoggedDelivery>, StoreError> {
    let rows = page(platform, endpoints, filter).all(conn).await?;
    with_kinds(conn, platform, rows).await
}

/// Finds a delivery, with its attempts in order.
pub async fn find_delivery(
    conn: &impl Sealing,
    platform: &PlatformId,
    endpoints: Option<&[EndpointId]>,
    id: &DeliveryId,
) -> Result<Option<LoggedDelivery>, StoreError> {
    let row = with_queue()
        .filter(seen_by(platform, endpoints))
        .filter(Delivery::Id.eq(id.as_str()))
        .one(conn)
        .await?;
    let Some(row) = row else {
        return Ok(None);
    };
    let success = success(&row.0);
    let Some(mut found) = with_kinds(conn, platform, vec![row]).await?.pop() else {
        return Ok(None);
    };
    let mut tries = delivery_attempts::Entity::find()
        .filter(delivery_attempts::Column::OwnerId.eq(platform.as_str()))
        .filter(delivery_attempts::Column::DeliveryId.eq(id.as_str()))
        .order_by_asc(delivery_attempts::Column::StartedAt)
        .order_by_asc(delivery_attempts::Column::Id)
        .all(conn)
        .await?;
    if let Some(success) = success {
        // The attempt that the endpoint accepted is stored with the delivery. In the list it comes after the failed
        // attempts of the first round, and before the attempts of replays.
        let failed = usize::try_from(success.number - 1).unwrap_or(usize::MAX);
        tries.insert(failed.min(tries.len()), success);
    }
    let owner = OwnerId::from(platform);
    let texts = tries.iter().filter_map(|row| Some((&owner, row.response.as_deref()?)));
    let ring = Keyring::for_texts_of(conn, texts).await?;
    for row in tries {
        let place = response_place(platform.as_str(), &row.id);
        let response = row.response.map(|text| ring.open(conn, text, place)).transpose()?;
        found.delivery.tries.push(TryRecord {
            number: columns::number("number", row.number)?,
            outcome: TryOutcome {
                status: row.status.map(|status| columns::number("status", status)).transpose()?,
                error: row.error,
                response: response.and_then(PayerText::text),
                started_at: row.started_at,
                ended_at: row.ended_at,
            },
        });
    }
    Ok(Some(found))
}

/// The successful attempt that a delivery row contains, in the form of a row of `delivery_attempts`.
fn success(delivery: &deliveries::Model) -> Option<delivery_attempts::Model> {
    Some(delivery_attempts::Model {
        owner_id: delivery.owner_id.clone(),
        delivery_id: delivery.id.clone(),
        id: delivery.id.clone(),
        number: delivery.success_number?,
        started_at: delivery.success_started_at?,
        ended_at: delivery.success_ended_at?,
        status: delivery.success_status,
        error: None,
        response: delivery.success_response.clone(),
    })
}

/// Deliveries of some events, in the order of their ids and without their attempts.
pub async fn deliveries_of(
    conn: &impl ConnectionTrait,
    platform: &PlatformId,
    events: &[EventId],
) -> Result<Vec<LoggedDelivery>, StoreError> {
    let rows = with_queue()
        .filter(seen_by(platform, None))
        .filter(Delivery::EventId.is_in(events.iter().map(EventId::as_str)))
        .order_by_asc(Delivery::Id)
        .all(conn)
        .await?;
    with_kinds(conn, platform, rows).await
}

fn seen_by(platform: &PlatformId, endpoints: Option<&[EndpointId]>) -> Condition {
    Condition::all()
        .add(Delivery::OwnerId.eq(platform.as_str()))
        .add_option(endpoints.map(|own| Delivery::EndpointId.is_in(own.iter().map(EndpointId::as_str))))
}

async fn with_kinds(
    conn: &impl ConnectionTrait,
    platform: &PlatformId,
    rows: Vec<DeliveryRow>,
) -> Result<Vec<LoggedDelivery>, StoreError> {
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let kinds: Vec<(String, String)> = events::Entity::find()
        .select_only()
        .columns([Event::Id, Event::Kind])
        .filter(Event::OwnerId.eq(platform.as_str()))
        .filter(Event::Id.is_in(rows.iter().map(|(row, _)| row.event_id.as_str())))
        .into_tuple()
        .all(conn)
        .await?;
    let kinds: HashMap<String, String> = kinds.into_iter().collect();
    rows.into_iter()
        .map(|(row, queued)| {
            let retry_count = queued.as_ref().map_or(row.retry_count, |queued| queued.retry_count);
            let kind = kinds
                .get(&row.event_id)
                .ok_or_else(|| columns::broken("event_id", &row.event_id))?;
            let state = columns::known("state", &row.state, DeliveryState::from_wire)?;
            Ok(LoggedDelivery {
                kind: kind.clone(),
                event: EventId(row.event_id),
                is_replay: row.is_replay,
                created_at: row.created_at,
                delivery: DeliveryRecord {
                    id: DeliveryId(row.id),
                    endpoint: EndpointId(row.endpoint_id),
                    state,
                    retry_count: columns::number("retry_count", retry_count)?,
                    next_at: queued.map(|queued| queued.next_at),
                    is_test: row.is_test,
                    finished_at: row.finished_at,
                    recovery_rounds: columns::number("recovery_rounds", row.recovery_rounds)?,
                    next_round_at: row.recover_at.filter(|_| state == DeliveryState::Failed),
                    tries: Vec::new(),
                },
            })
        })
        .collect()
}

/// An endpoint, a state, and the number of the endpoint's deliveries in this state.
pub type EndpointStateCount = (EndpointId, DeliveryState, u64);

/// Maximum difference between the time in the id of a delivery and the recorded time of its creation. Both are read
/// from the clock, shortly one after the other.
const DRAWN_APART: TimeDelta = TimeDelta::minutes(1);

/// The smallest id that a delivery of the time `time + later` can have. It serves as a bound that selects a part of the
/// index. The offset makes the bound wide enough to exclude no delivery whose time of creation matches.
fn drawn(time: DateTime<Utc>, later: TimeDelta) -> Option<DeliveryId> {
    time.checked_add_signed(later).map(DeliveryId::first_at)
}

fn grouped(
    platform: &PlatformId,
    endpoints: Option<&[EndpointId]>,
    since: DateTime<Utc>,
    until: DateTime<Utc>,
) -> Select<deliveries::Entity> {
    let created = Condition::all()
        .add(Delivery::CreatedAt.between(since, until))
        .add_option(drawn(since, -DRAWN_APART).map(|id| Delivery::Id.gte(id.0)))
        .add_option(drawn(until, DRAWN_APART).map(|id| Delivery::Id.lt(id.0)));
    deliveries::Entity::find()
        .select_only()
        .columns([Delivery::EndpointId, Delivery::State])
        .column_as(Expr::cust("COUNT(*)"), "count")
        .filter(seen_by(platform, endpoints).add(created))
        .group_by(Delivery::EndpointId)
        .group_by(Delivery::State)
        .order_by_asc(Delivery::EndpointId)
        .order_by_asc(Delivery::State)
}

/// Counts the deliveries that were created from `since` to `until`, both included.
pub async fn counts(
    conn: &impl ConnectionTrait,
    platform: &PlatformId,
    endpoints: Option<&[EndpointId]>,
    since: DateTime<Utc>,
    until: DateTime<Utc>,
) -> Result<Vec<EndpointStateCount>, StoreError> {
    let rows: Vec<(String, String, i64)> = grouped(platform, endpoints, since, until)
        .into_tuple()
        .all(conn)
        .await?;
    let read = |(endpoint, state, count): (String, String, i64)| {
        let state = columns::known("state", &state, DeliveryState::from_wire)?;
        Ok((EndpointId(endpoint), state, columns::number("count", count)?))
    };
    rows.into_iter().map(read).collect()
}

/// Queues finished deliveries of a platform again, due immediately, for a new round of attempts under the same
/// identity; returns how many.
///
/// A delivery that is pending or in flight stays unchanged. Needs a transaction.
pub async fn requeue(
    conn: &impl ConnectionTrait,
    platform: &PlatformId,
    deliveries: &[DeliveryId],
    now: DateTime<Utc>,
) -> Result<u64, StoreError> {
    let mut queued = 0;
    for ids in deliveries.chunks(columns::ROWS_MAX) {
        let again = deliveries::Entity::update_many()
            .col_expr(Delivery::State, Expr::value(DeliveryState::Queued.wire()))
            .col_expr(Delivery::Missed, Expr::value(None::<String>))
            .col_expr(Delivery::RetryCount, Expr::value(0))
            .col_expr(Delivery::FinishedAt, Expr::value(None::<DateTime<Utc>>))
            .col_expr(Delivery::IsReplay, Expr::value(true))
            .col_expr(Delivery::RecoveryRounds, Expr::value(0))
            .col_expr(Delivery::RecoverAt, Expr::value(None::<DateTime<Utc>>))
            .filter(Delivery::OwnerId.eq(platform.as_str()))
            .filter(Delivery::State.ne(DeliveryState::Queued.wire()))
            .filter(Delivery::Id.is_in(ids.iter().map(DeliveryId::as_str)))
            .exec_with_returning(conn)
            .await?;
        queued += u64::try_from(again.len()).unwrap_or(u64::MAX);
        queue::enqueue(conn, again.into_iter().map(|delivery| (delivery, now))).await?;
    }
    Ok(queued)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::plans;

    #[tokio::test]
    async fn delivery_states_and_counts_use_their_own_index_in_sqlite() {
        plans::with_database(async |db| {
            let platform = PlatformId("platform".into());
            let failed = DeliveryFilter {
                state: Some(DeliveryState::Failed),
                before: Some(DeliveryId("before".into())),
                limit: 21,
                ..DeliveryFilter::default()
            };
            let steps = plans::steps(db, &page(&platform, None, &failed).into_query()).await;
            let wanted = "deliveries_missed_idx (owner_id=? AND missed=? AND id<?)";
            assert!(steps.contains(wanted) && !steps.contains("B-TREE"), "{steps}");
            let at = DateTime::UNIX_EPOCH;
            let steps = plans::steps(db, &grouped(&platform, None, at, at).into_query()).await;
            let wanted = "INDEX sqlite_autoindex_deliveries_1 (owner_id=? AND id>? AND id<?)";
            assert!(steps.contains(wanted), "{steps}");
        })
        .await;
    }
}
