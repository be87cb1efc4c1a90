//! Events, their deliveries and the tries. An event is written with the facts that caused it, so that neither exists
//! without the other.

use super::{
    StoreError, columns, endpoints,
    outbox_postgres::{self, Held, Wanted},
};
use crate::domain::{
    ids::{ClientRowId, DeliveryId, EndpointId, EventId, OwnerId},
    webhook::{AfterTry, ClaimedDelivery, DeliveryState, TryOutcome},
};
use chrono::{DateTime, Utc};
use entities::{deliveries, deliveries::Column, delivery_attempts, events, webhook_endpoints};
use sea_orm::{
    ColumnTrait, ConnectionTrait, DbBackend, EntityTrait, JsonValue, Order, QueryFilter, QueryOrder, QuerySelect,
    QueryTrait, UpdateMany,
    sea_query::{
        CaseStatement, CommonTableExpression, Expr, ExprTrait, JoinType, OnConflict, Query, SelectStatement,
        UpdateStatement, WindowStatement, WithClause,
    },
};
use std::collections::{BTreeMap, HashMap, HashSet};

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
    /// Now; the first try is due at once.
    pub now: DateTime<Utc>,
}

/// One finished try: the claimed delivery, what came of it, what follows, and a fresh id for the row of the try.
pub type FinishedTry = (ClaimedDelivery, TryOutcome, AfterTry, String);

/// A delivery with its tries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryRecord {
    /// Row.
    pub id: DeliveryId,
    /// Receiver, which may be gone.
    pub endpoint: EndpointId,
    /// State.
    pub state: DeliveryState,
    /// Number of repetitions that were scheduled.
    pub retry_count: u32,
    /// Not before this time.
    pub next_at: DateTime<Utc>,
    /// Whether it is a test delivery.
    pub is_test: bool,
    /// When it left the queue.
    pub finished_at: Option<DateTime<Utc>>,
    /// Tries, the first one first.
    pub attempts: Vec<AttemptRecord>,
}

/// A recorded try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptRecord {
    /// Number, from 1.
    pub number: u32,
    /// What came of it.
    pub outcome: TryOutcome,
}

/// Writes an event unless the same fact has been told; tells whether it was written.
pub async fn insert_event(conn: &impl ConnectionTrait, event: &NewEvent) -> Result<bool, StoreError> {
    let row = events::Model {
        id: event.id.0.clone(),
        owner_id: event.owner.0.clone(),
        client_row: event.client.as_ref().map(|client| client.0.clone()),
        kind: event.kind.clone(),
        deduplication_key: event.deduplication_key.clone(),
        request_id: event.request_id.clone(),
        body: event.body.clone(),
        created_at: event.now,
    };
    let mut insertion = events::Entity::insert(events::ActiveModel::from(row)).into_query();
    insertion.on_conflict(
        OnConflict::column(events::Column::DeduplicationKey)
            .do_nothing()
            .to_owned(),
    );
    Ok(conn.execute(&insertion).await?.rows_affected() == 1)
}

/// Writes deliveries, due at once.
pub async fn insert_deliveries(conn: &impl ConnectionTrait, deliveries: &[NewDelivery]) -> Result<(), StoreError> {
    for deliveries in deliveries.chunks(columns::ROWS_MAX) {
        let rows = deliveries.iter().map(|delivery| {
            deliveries::ActiveModel::from(deliveries::Model {
                id: delivery.id.0.clone(),
                event_id: delivery.event.0.clone(),
                endpoint_id: delivery.endpoint.0.clone(),
                owner_id: delivery.owner.0.clone(),
                state: DeliveryState::Queued.wire().to_owned(),
                retry_count: 0,
                next_at: delivery.now,
                lease_until: None,
                lease_token: None,
                is_test: delivery.is_test,
                is_replay: false,
                created_at: delivery.now,
                finished_at: None,
            })
        });
        deliveries::Entity::insert_many(rows)
            .exec_without_returning(conn)
            .await?;
    }
    Ok(())
}

/// The condition of the partial indexes. It is spelled out because a bound value would not match them.
fn is_queued() -> Expr {
    Expr::cust("state = 'queued'")
}

/// Claims deliveries that are due, the longest waiting first.
///
/// They belong to the holder of the token until the lease ends; afterwards anybody may claim them again. Deliveries
/// whose endpoint is inactive or gone are cancelled instead.
pub async fn claim_due(
    conn: &impl ConnectionTrait,
    now: DateTime<Utc>,
    lease_until: DateTime<Utc>,
    lease_token: &str,
    limit: u64,
) -> Result<Vec<ClaimedDelivery>, StoreError> {
    claim_due_except(conn, now, lease_until, lease_token, limit, &[]).await
}

/// [`claim_due`] that leaves out endpoints which have enough in flight, so that a slow one cannot hold up the others.
pub async fn claim_due_except(
    conn: &impl ConnectionTrait,
    now: DateTime<Utc>,
    lease_until: DateTime<Utc>,
    lease_token: &str,
    limit: u64,
    busy: &[EndpointId],
) -> Result<Vec<ClaimedDelivery>, StoreError> {
    claim_due_shared(conn, now, lease_until, lease_token, limit, limit, busy).await
}

/// [`claim_due_except`] that takes at most `share` deliveries of each endpoint, and takes them in turns.
///
/// Only the longest waiting are looked at, twice the limit, so that a claim costs the same whatever waits behind them.
/// An answer that is shorter than the limit means that nothing more is due only when no endpoint reached its share.
pub async fn claim_due_shared(
    conn: &impl ConnectionTrait,
    now: DateTime<Utc>,
    lease_until: DateTime<Utc>,
    lease_token: &str,
    limit: u64,
    share: u64,
    busy: &[EndpointId],
) -> Result<Vec<ClaimedDelivery>, StoreError> {
    let wanted = Wanted {
        now,
        lease_until,
        lease_token,
        limit,
        share,
        busy,
    };
    let (claimed, unsendable) = match conn.get_database_backend() {
        DbBackend::Postgres => outbox_postgres::claim(conn, &wanted).await?,
        _ => claim_one_by_one(conn, &wanted).await?,
    };
    if !unsendable.is_empty() {
        let stopped = unleased(deliveries::Entity::update_many(), DeliveryState::Cancelled)
            .col_expr(Column::FinishedAt, Expr::value(now))
            .filter(is_queued())
            .filter(Column::Id.is_in(unsendable))
            .filter(Column::LeaseToken.eq(lease_token));
        stopped.exec(conn).await?;
    }
    Ok(claimed)
}

/// The general form of a claim: SQLite reads and writes in statements of their own.
async fn claim_one_by_one(
    conn: &impl ConnectionTrait,
    wanted: &Wanted<'_>,
) -> Result<(Vec<ClaimedDelivery>, Vec<String>), StoreError> {
    let Wanted {
        now,
        lease_until,
        lease_token,
        limit,
        share,
        busy,
    } = *wanted;
    let mut oldest = Query::select()
        .columns([Column::Id, Column::EndpointId, Column::NextAt])
        .from(deliveries::Entity)
        .and_where(is_queued())
        .and_where(Column::NextAt.lte(now))
        .and_where(Column::LeaseUntil.is_null().or(Column::LeaseUntil.lte(now)))
        .order_by(Column::NextAt, Order::Asc)
        .limit(limit.saturating_mul(2))
        .to_owned();
    if !busy.is_empty() {
        oldest.and_where(Column::EndpointId.is_not_in(busy.iter().map(EndpointId::as_str)));
    }
    let turn = WindowStatement::partition_by(Column::EndpointId)
        .order_by(Column::NextAt, Order::Asc)
        .to_owned();
    let ranked = Query::select()
        .columns([Column::Id, Column::NextAt])
        .expr_window_as(Expr::cust("ROW_NUMBER()"), turn, "turn")
        .from("oldest")
        .to_owned();
    let chosen = Query::select()
        .column(Column::Id)
        .from("ranked")
        .and_where(Expr::col("turn").lte(i64::try_from(share).unwrap_or(i64::MAX)))
        .order_by("turn", Order::Asc)
        .order_by(Column::NextAt, Order::Asc)
        .limit(limit)
        .to_owned();
    let selection = |name: &'static str, query: SelectStatement| {
        CommonTableExpression::new()
            .table_name(name)
            .query(query)
            .materialized(true)
            .to_owned()
    };
    let claim = Query::update()
        .table(deliveries::Entity)
        .value(Column::LeaseUntil, lease_until)
        .value(Column::LeaseToken, lease_token)
        .and_where(Column::Id.in_subquery(Query::select().column(Column::Id).from("chosen").to_owned()))
        .returning_col(Column::Id)
        .to_owned();
    let statement = WithClause::new()
        .cte(selection("oldest", oldest))
        .cte(selection("ranked", ranked))
        .cte(selection("chosen", chosen))
        .to_owned()
        .query(claim);
    let mut ids: Vec<String> = Vec::new();
    for row in conn.query_all(&statement).await? {
        ids.push(row.try_get("", "id")?);
    }
    if ids.is_empty() {
        return Ok((Vec::new(), Vec::new()));
    }
    let claimed = load_claimed(conn, &ids, lease_token).await?;
    let sendable: HashSet<&str> = claimed.iter().map(|delivery| delivery.id.as_str()).collect();
    ids.retain(|id| !sendable.contains(id.as_str()));
    Ok((claimed, ids))
}

/// Claims the deliveries of one event, for a caller that sends them itself.
pub async fn claim_event(
    conn: &impl ConnectionTrait,
    event: &EventId,
    lease_until: DateTime<Utc>,
    lease_token: &str,
) -> Result<Vec<ClaimedDelivery>, StoreError> {
    deliveries::Entity::update_many()
        .col_expr(Column::LeaseUntil, Expr::value(lease_until))
        .col_expr(Column::LeaseToken, Expr::value(lease_token))
        .filter(is_queued())
        .filter(Column::EventId.eq(event.as_str()))
        .exec(conn)
        .await?;
    let ids: Vec<String> = deliveries::Entity::find()
        .select_only()
        .column(Column::Id)
        .filter(Column::EventId.eq(event.as_str()))
        .filter(Column::LeaseToken.eq(lease_token))
        .into_tuple()
        .all(conn)
        .await?;
    load_claimed(conn, &ids, lease_token).await
}

/// What sending needs of the claimed deliveries whose endpoint is active, the longest waiting first.
async fn load_claimed(
    conn: &impl ConnectionTrait,
    ids: &[String],
    lease_token: &str,
) -> Result<Vec<ClaimedDelivery>, StoreError> {
    type Row = (
        String,
        String,
        String,
        i32,
        bool,
        bool,
        String,
        String,
        String,
        Option<JsonValue>,
    );
    let rows: Vec<Row> = deliveries::Entity::find()
        .select_only()
        .columns([
            Column::Id,
            Column::EventId,
            Column::EndpointId,
            Column::RetryCount,
            Column::IsTest,
            Column::IsReplay,
        ])
        .column(events::Column::Body)
        .column(webhook_endpoints::Column::Url)
        .column(webhook_endpoints::Column::SecretSealed)
        .column(webhook_endpoints::Column::FormerSecrets)
        .join(
            JoinType::InnerJoin,
            deliveries::Entity::belongs_to(events::Entity)
                .from(Column::EventId)
                .to(events::Column::Id)
                .into(),
        )
        .join(
            JoinType::InnerJoin,
            deliveries::Entity::belongs_to(webhook_endpoints::Entity)
                .from(Column::EndpointId)
                .to(webhook_endpoints::Column::Id)
                .into(),
        )
        .filter(Column::Id.is_in(ids.iter().map(String::as_str)))
        .filter(webhook_endpoints::Column::IsActive.eq(true))
        .order_by_asc(Column::NextAt)
        .order_by_asc(Column::Id)
        .into_tuple()
        .all(conn)
        .await?;
    rows.into_iter()
        .map(
            |(id, event, endpoint, retry_count, is_test, is_replay, body, url, secret_sealed, former)| {
                Ok(ClaimedDelivery {
                    id: DeliveryId(id),
                    event: EventId(event),
                    endpoint: EndpointId(endpoint),
                    url,
                    secret_sealed,
                    former_secrets: endpoints::former_secrets(former)?,
                    body,
                    retry_count: columns::number("retry_count", retry_count)?,
                    is_test,
                    is_replay,
                    lease_token: lease_token.to_owned(),
                })
            },
        )
        .collect()
}

/// Ends the lease of deliveries and gives them a state.
fn unleased(update: UpdateMany<deliveries::Entity>, state: DeliveryState) -> UpdateMany<deliveries::Entity> {
    update
        .col_expr(Column::State, Expr::value(state.wire()))
        .col_expr(Column::LeaseUntil, Expr::value(None::<DateTime<Utc>>))
        .col_expr(Column::LeaseToken, Expr::value(None::<String>))
}

/// What follows a try, without its time: tries that share it are written by one statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    Delivered,
    Retry,
    Exhausted,
}

impl Verdict {
    /// What follows a try, and when it is finished or due again.
    fn of(after: AfterTry, outcome: &TryOutcome) -> (Self, DateTime<Utc>) {
        match after {
            AfterTry::Delivered => (Self::Delivered, outcome.ended_at),
            AfterTry::RetryAt(at) => (Self::Retry, at),
            AfterTry::Exhausted => (Self::Exhausted, outcome.ended_at),
        }
    }
}

/// A delivery and when it is finished or due again.
type DueTime<'a> = (&'a DeliveryId, DateTime<Utc>);

/// Records finished tries and what follows them; answers the deliveries that were recorded. Needs a transaction.
///
/// A delivery that is no longer held under the token it was claimed with is left alone: its lease has ended and
/// somebody else tries it, or it was cancelled.
pub async fn finish_batch(
    conn: &impl ConnectionTrait,
    tries: &[FinishedTry],
) -> Result<HashSet<DeliveryId>, StoreError> {
    let mut recorded = HashSet::new();
    for tries in tries.chunks(columns::ROWS_MAX) {
        if conn.get_database_backend() == DbBackend::Postgres {
            recorded.extend(finish_on_postgres(conn, tries).await?);
            continue;
        }
        let mut groups: BTreeMap<(&str, Verdict), Vec<DueTime<'_>>> = BTreeMap::new();
        for (delivery, outcome, after, _) in tries {
            let (verdict, at) = Verdict::of(*after, outcome);
            groups
                .entry((&delivery.lease_token, verdict))
                .or_default()
                .push((&delivery.id, at));
        }
        let mut held = HashSet::new();
        for ((lease_token, verdict), deliveries) in groups {
            let statement = follow_up(lease_token, verdict, &deliveries);
            for row in conn.query_all(&statement).await? {
                let id: String = row.try_get("", "id")?;
                held.insert((lease_token, id));
            }
        }
        let attempts = tries
            .iter()
            .filter(|(delivery, ..)| held.contains(&(delivery.lease_token.as_str(), delivery.id.0.clone())))
            .map(|tried| Ok(delivery_attempts::ActiveModel::from(attempt(tried)?)))
            .collect::<Result<Vec<_>, StoreError>>()?;
        if !attempts.is_empty() {
            delivery_attempts::Entity::insert_many(attempts)
                .exec_without_returning(conn)
                .await?;
        }
        recorded.extend(held.into_iter().map(|(_, id)| DeliveryId(id)));
    }
    Ok(recorded)
}

fn attempt((delivery, outcome, _, id): &FinishedTry) -> Result<delivery_attempts::Model, StoreError> {
    Ok(delivery_attempts::Model {
        id: id.clone(),
        delivery_id: delivery.id.0.clone(),
        number: columns::number("number", delivery.retry_count + 1)?,
        started_at: outcome.started_at,
        ended_at: outcome.ended_at,
        status: outcome.status.map(i32::from),
        error: outcome.error.clone(),
        response: outcome.response.clone(),
    })
}

async fn finish_on_postgres(
    conn: &impl ConnectionTrait,
    tries: &[FinishedTry],
) -> Result<HashSet<DeliveryId>, StoreError> {
    let mut groups: BTreeMap<Verdict, Vec<Held<'_>>> = BTreeMap::new();
    for (delivery, outcome, after, _) in tries {
        let (verdict, at) = Verdict::of(*after, outcome);
        groups.entry(verdict).or_default().push(Held { delivery, at });
    }
    let mut held = HashSet::new();
    for (verdict, tried) in groups {
        let state = match verdict {
            Verdict::Delivered => DeliveryState::Delivered,
            Verdict::Retry => DeliveryState::Queued,
            Verdict::Exhausted => DeliveryState::Failed,
        };
        held.extend(outbox_postgres::finish(conn, state, &tried).await?);
    }
    let is_held = |(delivery, ..): &&FinishedTry| held.contains(&(delivery.id.0.clone(), delivery.lease_token.clone()));
    let attempts = tries.iter().filter(is_held).map(attempt);
    let attempts = attempts.collect::<Result<Vec<_>, StoreError>>()?;
    if !attempts.is_empty() {
        outbox_postgres::add_attempts(conn, attempts).await?;
    }
    Ok(held.into_iter().map(|(id, _)| DeliveryId(id)).collect())
}

/// One update of all deliveries that share token and verdict, each with its own time.
fn follow_up(lease_token: &str, verdict: Verdict, deliveries: &[DueTime<'_>]) -> UpdateStatement {
    let mut at = CaseStatement::new();
    for (id, time) in deliveries {
        at = at.case(Column::Id.eq(id.as_str()), Expr::value(*time));
    }
    let all = deliveries::Entity::update_many();
    let update = match verdict {
        Verdict::Delivered => unleased(all, DeliveryState::Delivered).col_expr(Column::FinishedAt, at.into()),
        Verdict::Exhausted => unleased(all, DeliveryState::Failed).col_expr(Column::FinishedAt, at.into()),
        Verdict::Retry => unleased(all, DeliveryState::Queued)
            .col_expr(Column::NextAt, at.into())
            .col_expr(Column::RetryCount, Expr::col(Column::RetryCount).add(1)),
    };
    let mut statement = update
        .filter(is_queued())
        .filter(Column::Id.is_in(deliveries.iter().map(|(id, _)| id.as_str())))
        .filter(Column::LeaseToken.eq(lease_token))
        .into_query();
    statement.returning_col(Column::Id);
    statement
}

/// Hands back what is held under a token, so that it can be claimed at once; answers how many.
pub async fn release(conn: &impl ConnectionTrait, lease_token: &str) -> Result<u64, StoreError> {
    let result = unleased(deliveries::Entity::update_many(), DeliveryState::Queued)
        .filter(is_queued())
        // True for every row: it leads SQLite to the index of the queue instead of the whole log.
        .filter(Column::NextAt.gte(DateTime::UNIX_EPOCH))
        .filter(Column::LeaseToken.eq(lease_token))
        .exec(conn)
        .await?;
    Ok(result.rows_affected)
}

/// When the next delivery can be claimed: now at the earliest, `None` when the queue is empty.
pub async fn next_due(conn: &impl ConnectionTrait, now: DateTime<Utc>) -> Result<Option<DateTime<Utc>>, StoreError> {
    next_due_except(conn, now, &[]).await
}

/// [`next_due`] of the endpoints that are not named.
pub async fn next_due_except(
    conn: &impl ConnectionTrait,
    now: DateTime<Utc>,
    busy: &[EndpointId],
) -> Result<Option<DateTime<Utc>>, StoreError> {
    let free = earliest(conn, Column::NextAt, Column::LeaseUntil.is_null(), busy).await?;
    let leased = earliest(conn, Column::LeaseUntil, Column::LeaseUntil.is_not_null(), busy).await?;
    let next = free.into_iter().chain(leased).min();
    Ok(next.map(|next| Ord::max(next, now)))
}

/// The smallest time in a column of the queue.
async fn earliest(
    conn: &impl ConnectionTrait,
    column: Column,
    which: Expr,
    busy: &[EndpointId],
) -> Result<Option<DateTime<Utc>>, StoreError> {
    let mut query = deliveries::Entity::find()
        .select_only()
        .column(column)
        .filter(is_queued())
        .filter(which);
    if !busy.is_empty() {
        query = query.filter(Column::EndpointId.is_not_in(busy.iter().map(EndpointId::as_str)));
    }
    let time = query.order_by_asc(column).limit(1).into_tuple().one(conn).await?;
    Ok(time)
}

/// Cancels what waits for an endpoint; answers how many deliveries.
pub async fn cancel_queued_of_endpoint(
    conn: &impl ConnectionTrait,
    owner: &OwnerId,
    endpoint: &EndpointId,
    now: DateTime<Utc>,
) -> Result<u64, StoreError> {
    let result = unleased(deliveries::Entity::update_many(), DeliveryState::Cancelled)
        .col_expr(Column::FinishedAt, Expr::value(now))
        .filter(is_queued())
        .filter(Column::OwnerId.eq(owner.as_str()))
        .filter(Column::EndpointId.eq(endpoint.as_str()))
        .exec(conn)
        .await?;
    Ok(result.rows_affected)
}

/// The claims under which deliveries of an endpoint are held.
pub async fn claims_on_endpoint(
    conn: &impl ConnectionTrait,
    endpoint: &EndpointId,
    now: DateTime<Utc>,
) -> Result<Vec<String>, StoreError> {
    let tokens = deliveries::Entity::find()
        .select_only()
        .column(Column::LeaseToken)
        .distinct()
        .filter(is_queued())
        .filter(Column::EndpointId.eq(endpoint.as_str()))
        .filter(Column::LeaseToken.is_not_null())
        .filter(Column::LeaseUntil.gt(now))
        .into_tuple()
        .all(conn)
        .await?;
    Ok(tokens)
}

/// Deliveries of an event with their tries, in the order of their ids.
pub async fn deliveries_of_event(
    conn: &impl ConnectionTrait,
    event: &EventId,
) -> Result<Vec<DeliveryRecord>, StoreError> {
    let rows = deliveries::Entity::find()
        .filter(Column::EventId.eq(event.as_str()))
        .order_by_asc(Column::Id)
        .all(conn)
        .await?;
    let attempts = delivery_attempts::Entity::find()
        .filter(delivery_attempts::Column::DeliveryId.is_in(rows.iter().map(|row| row.id.as_str())))
        .order_by_asc(delivery_attempts::Column::Number)
        .order_by_asc(delivery_attempts::Column::Id)
        .all(conn)
        .await?;
    let mut by_delivery: HashMap<String, Vec<AttemptRecord>> = HashMap::new();
    for row in attempts {
        let record = AttemptRecord {
            number: columns::number("number", row.number)?,
            outcome: TryOutcome {
                status: row.status.map(|status| columns::number("status", status)).transpose()?,
                error: row.error,
                response: row.response,
                started_at: row.started_at,
                ended_at: row.ended_at,
            },
        };
        by_delivery.entry(row.delivery_id).or_default().push(record);
    }
    rows.into_iter()
        .map(|row| {
            Ok(DeliveryRecord {
                attempts: by_delivery.remove(&row.id).unwrap_or_default(),
                id: DeliveryId(row.id),
                endpoint: EndpointId(row.endpoint_id),
                state: columns::known("state", &row.state, DeliveryState::from_wire)?,
                retry_count: columns::number("retry_count", row.retry_count)?,
                next_at: row.next_at,
                is_test: row.is_test,
                finished_at: row.finished_at,
            })
        })
        .collect()
}
