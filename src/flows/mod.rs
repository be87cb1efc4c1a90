//! Operations of the service, one file each. A file gathers data, decides and commits. Flows contain no HTTP, no SQL
//! and no names of vendors.

pub mod admission;
pub mod at_rest;
pub mod auth;
pub mod client_ids;
pub mod currencies;
pub mod destinations;
pub mod events;
pub mod fee_configs;
pub mod idempotency;
pub mod keys;
pub mod off_ramp;
pub mod orchestrators;
pub mod partitions;
pub mod payers;
pub mod paying;
pub mod payments;
pub mod payouts;
pub mod platforms;
pub mod provider_news;
pub mod rates;
pub mod requests;
pub mod schedules;
pub mod secure_payments;
pub mod webhooks;

use crate::{
    ctx::Ctx,
    domain::{
        event::{Event, EventAudience, tells_of_payment},
        ids::{DeliveryId, EventId, OwnerId, PlatformId},
        refusal::Refusal,
    },
    payloads,
    ports::chain::ChainError,
    store::{self, StoreError, Tx, endpoints::ActiveEndpoint},
};
use anyhow::anyhow;
use std::collections::{BTreeSet, HashSet};
use tokio::runtime::Handle;
use tracing::Span;

/// Maximum number of payments whose calldata is computed on a thread that handles calls. For more payments a separate
/// thread computes it.
const PLANNED_AMONG_OTHERS_MAX: usize = 20;

/// A failure that only the operator can fix; its text is never sent to a client.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Fault(#[from] pub anyhow::Error);

/// Errors of a flow.
#[derive(Debug, thiserror::Error)]
pub enum FlowError {
    /// The caller can fix it.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The database does not respond: retry later.
    #[error("the database does not respond: {0}")]
    Unavailable(anyhow::Error),
    /// A precondition is not met yet; the operation is retried automatically.
    #[error("not possible yet: {0}")]
    NotYet(anyhow::Error),
    /// The database disk is full: the operator has to free space; calls that only read still work.
    #[error("the database disk is full: {0}")]
    Full(anyhow::Error),
    /// Only the operator can fix this failure.
    #[error(transparent)]
    Faulted(#[from] Fault),
}

/// Result of a flow.
pub type FlowResult<T> = Result<T, FlowError>;

impl From<StoreError> for FlowError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Unavailable(source) => Self::Unavailable(source),
            StoreError::Full(source) => Self::Full(source),
            other => Self::Faulted(Fault(anyhow::Error::new(other))),
        }
    }
}

/// Runs `work`, which computes the calldata of `payments` payments. For many payments this takes milliseconds, so it
/// runs on a separate thread instead of a thread that handles calls.
pub(in crate::flows) async fn beside_others<T: Send + 'static>(
    payments: usize,
    work: impl Future<Output = FlowResult<T>> + Send + 'static,
) -> FlowResult<T> {
    if payments <= PLANNED_AMONG_OTHERS_MAX {
        return work.await;
    }
    let (runtime, span) = (Handle::current(), Span::current());
    let apart = move || span.in_scope(|| runtime.block_on(work));
    let done = tokio::task::spawn_blocking(apart).await;
    done.map_err(|error| Fault(anyhow!(error).context("planning many payments")))?
}

impl From<ChainError> for FlowError {
    fn from(error: ChainError) -> Self {
        use crate::domain::refusal::RefusalKind::{TooMany, Upstream};
        let message = match &error {
            ChainError::Unavailable { network, .. } | ChainError::Withheld { network, .. } => {
                format!("Not enough nodes of {network} are responding; retry shortly")
            }
            ChainError::Busy { network } => {
                let message = format!("Too many lookups on {network} are in progress; retry shortly");
                return Self::Refused(Refusal::new(TooMany, message).after(1));
            }
            ChainError::Malformed { network, .. } => {
                format!("The nodes of {network} returned no usable response; retry shortly")
            }
            ChainError::Disagreement { network, .. } => format!(
                "The nodes of {network} contradict each other; retry shortly, and contact the operator of this \
                 service if it happens again"
            ),
            ChainError::NotEnabled { network } => {
                return Refusal::invalid(format!("Network {network} is not enabled on this service")).into();
            }
            ChainError::Reverted(_) => "The chain rejected this lookup; check the wallet and the currencies".to_owned(),
        };
        tracing::warn!(%error, "chain lookup failed");
        Self::Refused(Refusal::new(Upstream, message))
    }
}

/// Writes an event and its deliveries in the transaction of the change that the event reports; see [`publish_all`].
pub async fn publish(ctx: &Ctx, tx: &Tx, event: &Event) -> Result<(), StoreError> {
    publish_all(ctx, tx, std::slice::from_ref(event)).await
}

/// Writes events and their deliveries, in their order, in the transaction of the changes that the events report.
///
/// The bodies are rendered here, once; deliveries sign and send these bytes later. An event that already exists stays
/// unchanged. Source: ADR-0002; rules A.5; decisions D21.
pub async fn publish_all(ctx: &Ctx, tx: &Tx, events: &[Event]) -> Result<(), StoreError> {
    let mut for_approved = HashSet::new();
    let mut written: Vec<_> = events
        .iter()
        .zip(ulids_in_order(ctx, events.len()))
        .map(|(event, id)| {
            let (owner, client) = match event.audience() {
                EventAudience::Platform { platform, client } => (OwnerId::from(&platform), client),
                EventAudience::PlatformOnly { platform } => (OwnerId::from(&platform), None),
                EventAudience::Owner {
                    owner,
                    client,
                    only_approved,
                } => {
                    if only_approved {
                        for_approved.insert(EventId(id.clone()));
                    }
                    (owner, client)
                }
                EventAudience::Orchestrator { orchestrator } => (OwnerId(orchestrator), None),
            };
            store::outbox::NewEvent {
                id: EventId(id),
                owner,
                client,
                kind: event.kind().to_owned(),
                deduplication_key: event.deduplication_key(),
                request_id: event.request_id().map(str::to_owned),
                body: payloads::body(event, &ctx.catalogue, &names(ctx)),
                payer: event.payer().cloned(),
                now: ctx.clock.now(),
            }
        })
        .collect();
    let new_ids = store::outbox::insert_events(tx, &written).await?;
    written.retain(|event| new_ids.contains(&event.id));
    if written.is_empty() {
        return Ok(());
    }
    crate::fail_at("publish", "event_inserted");
    let owners: BTreeSet<&OwnerId> = written.iter().map(|event| &event.owner).collect();
    let owners: Vec<OwnerId> = owners.into_iter().cloned().collect();
    let reaches_public = ctx.webhooks.client_id_management.reach_public();
    let endpoints = store::endpoints::active_of(tx, &owners, reaches_public).await?;
    let unapproved: HashSet<&OwnerId> = endpoints
        .iter()
        .filter(|endpoint| !endpoint.is_approved)
        .map(|endpoint| &endpoint.owner)
        .collect();
    for owner in unapproved {
        let own = written.iter().filter(|event| event.owner == *owner);
        let told = own.map(|event| (&event.id, event.kind.as_str(), event.request_id.as_deref()));
        for_approved.extend(of_hidden_links(tx, owner, told).await?);
    }
    let pairs: Vec<_> = written
        .iter()
        .flat_map(|event| {
            let hears = |endpoint: &&ActiveEndpoint| {
                endpoint.hears(&event.owner, event.client.as_ref())
                    && (endpoint.is_approved || !for_approved.contains(&event.id))
            };
            endpoints.iter().filter(hears).map(move |endpoint| (event, endpoint))
        })
        .collect();
    let deliveries: Vec<_> = pairs
        .iter()
        .zip(ulids_in_order(ctx, pairs.len()))
        .map(|((event, endpoint), id)| store::outbox::NewDelivery {
            id: DeliveryId(id),
            event: event.id.clone(),
            endpoint: endpoint.id.clone(),
            owner: event.owner.clone(),
            is_test: false,
            is_replay: false,
            now: event.now,
        })
        .collect();
    store::outbox::insert_deliveries(tx, &deliveries).await?;
    crate::fail_at("publish", "deliveries_inserted");
    Ok(())
}

/// Returns those of the given events that are about a payment of a link that hides data. Unapproved endpoints do not
/// receive these events. Source: decisions D32.
async fn of_hidden_links<'a>(
    tx: &Tx,
    owner: &OwnerId,
    events: impl Iterator<Item = (&'a EventId, &'a str, Option<&'a str>)>,
) -> Result<HashSet<EventId>, StoreError> {
    let told = events.filter(|(_, kind, _)| tells_of_payment(kind));
    let told: Vec<(&EventId, &str)> = told.filter_map(|(id, _, request)| Some((id, request?))).collect();
    if told.is_empty() {
        return Ok(HashSet::new());
    }
    let requests: BTreeSet<String> = told.iter().map(|(_, request)| (*request).to_owned()).collect();
    let platform = PlatformId(owner.as_str().to_owned());
    let hidden = store::requests::hidden_among(tx, &platform, requests).await?;
    let of_hidden = told.into_iter().filter(|(_, request)| hidden.contains(*request));
    Ok(of_hidden.map(|(id, _)| id.clone()).collect())
}

/// New ids for rows that are written together, in ascending order, so that lists by id keep the given order.
fn ulids_in_order(ctx: &Ctx, count: usize) -> Vec<String> {
    let mut ids: Vec<String> = (0..count).map(|_| ctx.ids.ulid()).collect();
    ids.sort_unstable();
    ids
}

fn names(ctx: &Ctx) -> payloads::ProcessorNames {
    payloads::ProcessorNames {
        processor_crypto: ctx.payments.processor_crypto.clone(),
        processor_fiat: ctx.payments.processor_fiat.clone(),
    }
}

/// A sample body of an event kind, for test deliveries.
pub fn sample_body(ctx: &Ctx, kind: &str) -> FlowResult<String> {
    payloads::sample(kind, &names(ctx)).ok_or_else(|| FlowError::Faulted(Fault(anyhow::anyhow!("no sample of {kind}"))))
}

/// A body without personal data. Errors: it is not a body of this service. Source: decisions D32.
pub fn without_persons(body: &str) -> Result<String, Fault> {
    payloads::without_persons(body).map_err(|error| Fault(error.into()))
}

/// Errors: the owner may not request further deliveries, because too many are due (429).
async fn require_room(ctx: &Ctx, tx: &Tx, owner: &OwnerId) -> FlowResult<()> {
    let due = store::outbox::count_due(tx, owner, ctx.clock.now(), ctx.caps.due_deliveries).await?;
    Ok(ctx.caps.admit_more_due(due)?)
}
