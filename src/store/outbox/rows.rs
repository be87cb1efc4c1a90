//! Parts common to both databases: the next state after an attempt, the rows of attempts, and the data of a claimed row
//! that sending needs.

use crate::{
    domain::{
        ids::{DeliveryId, EndpointId, EventId, OwnerId},
        webhook::{AfterTry, ClaimedDelivery, DeliveryState, TryOutcome},
    },
    ports::sealer::split_payer,
    store::{Sealing, StoreError, columns, delivery_log, endpoints, payer_keys::Keyring, sealed},
};
use chrono::{DateTime, Utc};
use entities::{delivery_attempts, delivery_queue, delivery_queue::Column, events, webhook_endpoints};
use sea_orm::{
    ColumnTrait, ConnectionTrait, EntityTrait, FromQueryResult, JsonValue, QueryFilter, QueryOrder, QuerySelect,
    UpdateMany, Value,
    sea_query::{Expr, JoinType},
};

/// One finished attempt: the claimed delivery, its outcome, the next state, and a fresh id for the row of the attempt.
pub type FinishedTry = (ClaimedDelivery, TryOutcome, AfterTry, String);

/// Maximum number of endpoints that one claim lists to read the longest waiting deliveries of each. Deliveries of
/// further endpoints are claimed only when they are among the oldest of all.
pub(super) const ENDPOINTS_MAX: u64 = 1_000;

/// Maximum number of the endpoints listed by a claim ([`ENDPOINTS_MAX`]) that may belong to one owner.
pub(super) const OWNER_ENDPOINTS_MAX: u64 = 125;

/// A number as a parameter.
pub(super) fn whole(number: u64) -> Value {
    i64::try_from(number).unwrap_or(i64::MAX).into()
}

/// Ends the lease of deliveries.
pub(super) fn unleased(update: UpdateMany<delivery_queue::Entity>) -> UpdateMany<delivery_queue::Entity> {
    update
        .col_expr(Column::LeaseUntil, Expr::value(None::<DateTime<Utc>>))
        .col_expr(Column::LeaseToken, Expr::value(None::<String>))
}

/// The kind of state that follows an attempt, without the time of the next attempt. Attempts with the same value are
/// written by one statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum AttemptVerdict {
    /// Arrived in the first round: the row of the delivery contains the attempt.
    Arrived,
    /// Arrived after the delivery was queued again.
    ArrivedAgain,
    /// Given up.
    Exhausted,
    /// Due again.
    Retry,
}

impl AttemptVerdict {
    /// What follows an attempt.
    pub(super) fn of((delivery, _, after, _): &FinishedTry) -> Self {
        match after {
            AfterTry::Delivered if delivery.is_replay => Self::ArrivedAgain,
            AfterTry::Delivered => Self::Arrived,
            AfterTry::Exhausted => Self::Exhausted,
            AfterTry::RetryAt(_) => Self::Retry,
        }
    }

    /// The state that follows.
    pub(super) fn state(self) -> DeliveryState {
        match self {
            Self::Arrived | Self::ArrivedAgain => DeliveryState::Delivered,
            Self::Exhausted => DeliveryState::Failed,
            Self::Retry => DeliveryState::Queued,
        }
    }

    /// Value of the column for deliveries that ended and were not accepted: their state. `None` for all other
    /// deliveries.
    pub(super) fn missed(self) -> Option<String> {
        (self == Self::Exhausted).then(|| self.state().wire().to_owned())
    }
}

/// The row of an attempt. An attempt that arrived in the first round is stored in the row of the delivery, in the same
/// form.
///
/// A receiver's response may repeat the body, so the response is encrypted the same way. If the payer was erased in the
/// meantime, the response is not stored.
pub(super) fn try_row(
    conn: &impl Sealing,
    ring: &Keyring,
    tried @ (delivery, outcome, _, id): &FinishedTry,
) -> Result<delivery_attempts::Model, StoreError> {
    let id = match AttemptVerdict::of(tried) {
        AttemptVerdict::Arrived => delivery.id.0.clone(),
        _ => id.clone(),
    };
    let response = match outcome.response.clone() {
        Some(text) => {
            let place = delivery_log::response_place(delivery.owner.as_str(), &id);
            match split_payer(&delivery.body) {
                Some((payer, _)) => ring.seal(conn, &payer, text, place)?,
                None => Some(sealed::seal(conn, text, place)?),
            }
        }
        None => None,
    };
    Ok(delivery_attempts::Model {
        owner_id: delivery.owner.0.clone(),
        delivery_id: delivery.id.0.clone(),
        id,
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
struct ClaimedRow {
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

/// The data that sending needs, for claimed deliveries whose endpoint is active, the longest waiting first.
pub(super) async fn load_claimed(
    conn: &impl ConnectionTrait,
    ids: &[String],
    lease_token: &str,
) -> Result<Vec<ClaimedDelivery>, StoreError> {
    let rows: Vec<ClaimedRow> = delivery_queue::Entity::find()
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
            delivery_queue::Entity::belongs_to(events::Entity)
                .from((Column::OwnerId, Column::EventId))
                .to((events::Column::OwnerId, events::Column::Id))
                .into(),
        )
        .join(
            JoinType::InnerJoin,
            delivery_queue::Entity::belongs_to(webhook_endpoints::Entity)
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
    let claimed = |row: ClaimedRow| {
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
