//! One file for each operation: gather, decide, commit. No HTTP, no SQL text, no vendor words.

pub mod admission;
pub mod at_rest;
pub mod auth;
pub mod client_ids;
pub mod currencies;
pub mod destinations;
pub mod events;
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
        event::{Audience, Event, tells_of_payment},
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

/// Most payments that are planned on the threads that answer all calls.
const PLANNED_AMONG_OTHERS_MAX: usize = 20;

/// Only the operator can act on it; its text never reaches a client.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Fault(#[from] pub anyhow::Error);

/// How a flow ends when it does not end well.
#[derive(Debug, thiserror::Error)]
pub enum FlowError {
    /// The caller can act.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The database does not answer: try again later.
    #[error("the database does not answer: {0}")]
    Unavailable(anyhow::Error),
    /// What it needs is not there yet; it is tried again by itself.
    #[error("not possible yet: {0}")]
    NotYet(anyhow::Error),
    /// The disk of the database is full: the operator makes room, and calls that only read are answered meanwhile.
    #[error("the disk of the database is full: {0}")]
    Full(anyhow::Error),
    /// Only the operator can act.
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

/// Does the work for some payments. For many of them it takes milliseconds, so a thread of its own does it, beside those that
/// answer all calls.
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
                format!("Not enough nodes of {network} answer at the moment; try again")
            }
            ChainError::Busy { network } => {
                let message = format!("Too many questions are put to {network} at this moment; try again");
                return Self::Refused(Refusal::new(TooMany, message).after(1));
            }
            ChainError::Malformed { network, .. } => {
                format!("The nodes of {network} do not give a usable answer at the moment; try again")
            }
            ChainError::Disagreement { network, .. } => format!(
                "The nodes of {network} contradict each other at the moment; try again, and tell the operator of this service \
                 if it happens again"
            ),
            ChainError::NotEnabled { network } => {
                return Refusal::invalid(format!("Network {network} is not enabled on this service")).into();
            }
            ChainError::Reverted(_) => {
                "The chain refused to look this up; check the wallet and the currencies".to_owned()
            }
        };
        tracing::warn!(%error, "chain lookup failed");
        Self::Refused(Refusal::new(Upstream, message))
    }
}

/// Writes an event and its deliveries into the transaction that holds its cause; see [`publish_all`].
pub async fn publish(ctx: &Ctx, tx: &Tx, event: &Event) -> Result<(), StoreError> {
    publish_all(ctx, tx, std::slice::from_ref(event)).await
}

/// Writes events and their deliveries, in their order, into the transaction that holds their causes.
///
/// The bodies are rendered here, once; what is signed and sent later are these bytes. An event that was already told is
/// left alone. Source: ADR-0002; rules A.5; decisions D21.
pub async fn publish_all(ctx: &Ctx, tx: &Tx, events: &[Event]) -> Result<(), StoreError> {
    let mut for_approved = HashSet::new();
    let mut written: Vec<_> = events
        .iter()
        .zip(ulids_in_order(ctx, events.len()))
        .map(|(event, id)| {
            let (owner, client) = match event.audience() {
                Audience::Platform { platform, client } => (OwnerId::from(&platform), client),
                Audience::PlatformOnly { platform } => (OwnerId::from(&platform), None),
                Audience::Owner {
                    owner,
                    client,
                    only_approved,
                } => {
                    if only_approved {
                        for_approved.insert(EventId(id.clone()));
                    }
                    (owner, client)
                }
                Audience::Orchestrator { orchestrator } => (OwnerId(orchestrator), None),
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

/// Those of some events of an owner that tell of payments of links which hide something: endpoints that nobody approved hear
/// none of it. Source: decisions D32.
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

/// Fresh ids for what is written together: lists by id show it in the order in which it is given.
fn ulids_in_order(ctx: &Ctx, count: usize) -> Vec<String> {
    let mut ids: Vec<String> = (0..count).map(|_| ctx.ids.ulid()).collect();
    ids.sort_unstable();
    ids
}

fn names(ctx: &Ctx) -> payloads::Names {
    payloads::Names {
        processor_crypto: ctx.payments.processor_crypto.clone(),
        processor_fiat: ctx.payments.processor_fiat.clone(),
    }
}

/// A sample body of an event kind, for test deliveries.
pub fn sample_body(ctx: &Ctx, kind: &str) -> FlowResult<String> {
    payloads::sample(kind, &names(ctx)).ok_or_else(|| FlowError::Faulted(Fault(anyhow::anyhow!("no sample of {kind}"))))
}

/// A body without what it says about persons. Errors: it is none of ours. Source: decisions D32.
pub fn without_persons(body: &str) -> Result<String, Fault> {
    payloads::without_persons(body).map_err(|error| Fault(error.into()))
}

/// Errors: an owner may not ask for further deliveries, because so many are due (429).
async fn require_room(ctx: &Ctx, tx: &Tx, owner: &OwnerId) -> FlowResult<()> {
    let due = store::outbox::count_due(tx, owner, ctx.clock.now(), ctx.caps.due_deliveries).await?;
    Ok(ctx.caps.admit_more_due(due)?)
}
