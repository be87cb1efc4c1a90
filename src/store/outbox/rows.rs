//! What both databases share: the condition of the queue, the rows of tries, and what sending needs of a claimed row.

use crate::{
    domain::{
        ids::{DeliveryId, EndpointId, EventId, OwnerId},
        webhook::{AfterTry, ClaimedDelivery, DeliveryState, TryOutcome},
    },
    ports::sealer::is_sealed,
    store::{Sealing, StoreError, columns, delivery_log, endpoints, sealed},
};
use chrono::{DateTime, Utc};
use entities::{deliveries, deliveries::Column, delivery_attempts, events, webhook_endpoints};
use sea_orm::{
    ColumnTrait, ConnectionTrait, EntityTrait, FromQueryResult, JsonValue, QueryFilter, QueryOrder, QuerySelect,
    UpdateMany, Value,
    sea_query::{Expr, JoinType},
};

/// One finished try: the claimed delivery, what came of it, what follows, and a fresh id for the row of the try.
pub type FinishedTry = (ClaimedDelivery, TryOutcome, AfterTry, String);

/// Owners of whom a claim looks at the first ones that wait. Those beyond are claimed by age alone.
pub(super) const OWNERS_MAX: u64 = 1_000;

/// A number as a parameter.
pub(super) fn whole(number: u64) -> Value {
    i64::try_from(number).unwrap_or(i64::MAX).into()
}

/// The condition of the partial indexes. It is spelled out because a bound value would not match them.
pub(super) fn is_queued() -> Expr {
    Expr::cust("state = 'queued'")
}

/// Ends the lease of deliveries and gives them a state.
pub(super) fn unleased(update: UpdateMany<deliveries::Entity>, state: DeliveryState) -> UpdateMany<deliveries::Entity> {
    update
        .col_expr(Column::State, Expr::value(state.wire()))
        .col_expr(Column::LeaseUntil, Expr::value(None::<DateTime<Utc>>))
        .col_expr(Column::LeaseToken, Expr::value(None::<String>))
}

/// What follows a try, without its time: tries that share it are written by one statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Verdict {
    /// Arrived.
    Delivered,
    /// Due again.
    Retry,
    /// Given up.
    Exhausted,
}

impl Verdict {
    /// What follows a try, and when it is finished or due again.
    pub(super) fn of(after: AfterTry, outcome: &TryOutcome) -> (Self, DateTime<Utc>) {
        match after {
            AfterTry::Delivered => (Self::Delivered, outcome.ended_at),
            AfterTry::RetryAt(at) => (Self::Retry, at),
            AfterTry::Exhausted => (Self::Exhausted, outcome.ended_at),
        }
    }
}

/// The row of a try. What a receiver said about a sealed body may repeat it, so it is sealed too.
pub(super) fn try_row(
    conn: &impl Sealing,
    (delivery, outcome, _, id): &FinishedTry,
) -> Result<delivery_attempts::Model, StoreError> {
    let response = match outcome.response.clone() {
        Some(text) if is_sealed(&delivery.body) => {
            let place = delivery_log::response_place(delivery.owner.as_str(), id);
            Some(sealed::seal(conn, text, place)?)
        }
        other => other,
    };
    Ok(delivery_attempts::Model {
        id: id.clone(),
        delivery_id: delivery.id.0.clone(),
        number: columns::number("number", delivery.retry_count + 1)?,
        started_at: outcome.started_at,
        ended_at: outcome.ended_at,
        status: outcome.status.map(i32::from),
        error: outcome.error.clone(),
        response,
    })
}

/// A claimed delivery with its event and its endpoint.
#[derive(FromQueryResult)]
struct Row {
    id: String,
    event_id: String,
    owner_id: String,
    endpoint_id: String,
    retry_count: i32,
    is_test: bool,
    is_replay: bool,
    body: String,
    url: String,
    secret_sealed: String,
    former_secrets: Option<JsonValue>,
    is_failing: bool,
    header_prefix: Option<String>,
    is_approved: bool,
}

/// What sending needs of the claimed deliveries whose endpoint is active, the longest waiting first.
pub(super) async fn load_claimed(
    conn: &impl ConnectionTrait,
    ids: &[String],
    lease_token: &str,
) -> Result<Vec<ClaimedDelivery>, StoreError> {
    let rows: Vec<Row> = deliveries::Entity::find()
        .select_only()
        .columns([
            Column::Id,
            Column::EventId,
            Column::OwnerId,
            Column::EndpointId,
            Column::RetryCount,
            Column::IsTest,
            Column::IsReplay,
        ])
        .column(events::Column::Body)
        .column(webhook_endpoints::Column::Url)
        .column(webhook_endpoints::Column::SecretSealed)
        .column(webhook_endpoints::Column::FormerSecrets)
        .column(webhook_endpoints::Column::HeaderPrefix)
        .column_as(webhook_endpoints::Column::FailingSince.is_not_null(), "is_failing")
        .column(webhook_endpoints::Column::IsApproved)
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
        .into_model()
        .all(conn)
        .await?;
    let claimed = |row: Row| {
        Ok(ClaimedDelivery {
            id: DeliveryId(row.id),
            event: EventId(row.event_id),
            owner: OwnerId(row.owner_id),
            endpoint: EndpointId(row.endpoint_id),
            url: row.url,
            secret_sealed: row.secret_sealed,
            former_secrets: endpoints::former_secrets(row.former_secrets)?,
            header_prefix: row.header_prefix,
            is_approved: row.is_approved,
            body: row.body,
            retry_count: columns::number("retry_count", row.retry_count)?,
            is_test: row.is_test,
            is_replay: row.is_replay,
            is_endpoint_failing: row.is_failing,
            lease_token: lease_token.to_owned(),
        })
    };
    rows.into_iter().map(claimed).collect()
}
