//! Retries, in further rounds, deliveries whose four attempts failed. As soon as an endpoint recovers, all its failed
//! deliveries are retried.

use crate::{
    ctx::Ctx,
    domain::{
        event::{Event, WebhookDisabled},
        ids::{DeliveryId, EndpointId},
        recovery::{is_dead, pause_max},
        webhook::{AfterTry, FinishedAttempt, host_of},
    },
    flows::{
        FlowResult, publish,
        webhooks::{Endpoint, Holder},
    },
    store::{self, Tx},
};
use chrono::{DateTime, Utc};
use std::collections::{BTreeSet, HashMap, HashSet};

/// Maximum number of rounds that one transaction starts because they are due. The maximum for rounds of recovered
/// endpoints, which it also starts, is the same number.
const BATCH: u64 = 500;

/// Maximum number of recovered endpoints in one transaction.
const ENDPOINTS: u64 = 20;

/// Starts one batch of due rounds; returns whether there may be more. Source: decisions D36.
pub async fn run(ctx: &Ctx) -> FlowResult<bool> {
    let now = ctx.clock.now();
    let reader = ctx.db.reader();
    let mut due = store::recovery::due(reader, now, BATCH).await?;
    let mut has_more = count(&due) >= BATCH;
    let ready = store::recovery::ready(reader, now, ENDPOINTS).await?;
    // Each endpoint gets the same number of rounds, so that the longest backlog does not delay the others.
    let share = (BATCH / count(&ready).max(1)).max(1);
    for endpoint in &ready {
        let of_endpoint = store::recovery::due_of_endpoint(reader, endpoint, now, share).await?;
        has_more |= count(&of_endpoint) >= share;
        due.extend(of_endpoint);
    }
    let settled = store::recovery::settled(reader, ENDPOINTS).await?;
    if due.is_empty() && settled.is_empty() {
        return Ok(false);
    }
    let tx = ctx.db.begin("recover_deliveries").await?;
    // Transactions that change endpoints and deliveries lock the endpoints first.
    store::recovery::end(&tx, &settled).await?;
    store::recovery::begin(&tx, &due, now).await?;
    tx.commit().await?;
    ctx.due.notify_one();
    Ok(has_more)
}

fn count<T>(rows: &[T]) -> u64 {
    u64::try_from(rows.len()).unwrap_or(u64::MAX)
}

/// What a batch of attempts means for endpoints and for deliveries after their fourth attempt. Retries within the four
/// attempts are handled elsewhere.
pub(super) struct DeliveryVerdicts<'a> {
    /// Deliveries that failed for the fourth time, without tests.
    exhausted: Vec<&'a FinishedAttempt>,
    /// Endpoints that responded and were failing before.
    answering: BTreeSet<&'a EndpointId>,
    /// Endpoints for which a delivery failed for the fourth time, and that accepted no delivery in the batch.
    failing: BTreeSet<&'a EndpointId>,
}

impl<'a> DeliveryVerdicts<'a> {
    pub(super) fn of(tried: &'a [FinishedAttempt]) -> Self {
        let answered: HashSet<&EndpointId> = tried
            .iter()
            .filter(|tried| tried.after == AfterTry::Delivered)
            .map(|tried| &tried.delivery.endpoint)
            .collect();
        let exhausted: Vec<&FinishedAttempt> = tried
            .iter()
            .filter(|tried| tried.after == AfterTry::Exhausted && !tried.delivery.is_test)
            .collect();
        let endpoints = exhausted.iter().map(|tried| &tried.delivery.endpoint);
        let failing = endpoints.filter(|endpoint| !answered.contains(endpoint)).collect();
        let known = tried.iter().filter(|tried| tried.delivery.is_endpoint_failing);
        let known = known.map(|tried| &tried.delivery.endpoint);
        Self {
            answering: known.filter(|endpoint| answered.contains(endpoint)).collect(),
            exhausted,
            failing,
        }
    }

    /// Locks the endpoints that will be updated: transactions that change an endpoint and its deliveries lock the
    /// endpoint first.
    pub(super) async fn lock(&self, tx: &Tx) -> FlowResult<Vec<Endpoint>> {
        let concerned: Vec<EndpointId> = self.answering.union(&self.failing).map(|id| (*id).clone()).collect();
        if concerned.is_empty() {
            Ok(Vec::new())
        } else {
            Ok(store::endpoints::lock(tx, &concerned).await?)
        }
    }

    /// Records the next rounds, the recovered endpoints and the failing endpoints, after the attempts are `recorded`.
    /// Switches off each of the `locked` endpoints that has failed for too long, and returns these.
    pub(super) async fn note(
        &self,
        ctx: &Ctx,
        tx: &Tx,
        recorded: &HashSet<DeliveryId>,
        locked: Vec<Endpoint>,
    ) -> FlowResult<Vec<WebhookDisabled>> {
        let deliveries = self.exhausted.iter().map(|tried| &tried.delivery);
        let deliveries: Vec<_> = deliveries
            .map(|delivery| (delivery.owner.clone(), delivery.id.clone()))
            .collect();
        if !deliveries.is_empty() {
            let rounds = store::recovery::rounds(tx, &deliveries).await?;
            let ended = |id: &DeliveryId| {
                let tried = self.exhausted.iter().find(|tried| tried.delivery.id == *id);
                tried.map(|tried| tried.outcome.ended_at)
            };
            let planned: Vec<_> = rounds
                .into_iter()
                .filter(|rounds| recorded.contains(&rounds.of.1))
                .filter_map(|rounds| {
                    let next = ctx
                        .webhooks
                        .recovery
                        .next(rounds.begun, rounds.last, ended(&rounds.of.1)?);
                    Some((rounds.of, next))
                })
                .collect();
            store::recovery::plan(tx, &planned).await?;
        }
        let owned = |set: &BTreeSet<&EndpointId>| set.iter().map(|id| (*id).clone()).collect::<Vec<_>>();
        if !self.answering.is_empty() {
            store::recovery::answered(tx, &owned(&self.answering)).await?;
        }
        let (now, after) = (ctx.clock.now(), ctx.webhooks.disable_after);
        let mut failing = HashMap::new();
        if !self.failing.is_empty() {
            let pause_from = after.map(|after| now - pause_max(after));
            let noted = store::recovery::failing(tx, &owned(&self.failing), pause_from, now).await?;
            failing.extend(noted);
        }
        let mut disabled = Vec::new();
        for endpoint in locked {
            if let Some(since) = failing.get(&endpoint.id).copied()
                && endpoint.is_active
                && is_dead(since, now, after)
            {
                disabled.push(disable(ctx, tx, endpoint, since).await?);
            }
        }
        Ok(disabled)
    }
}

/// Switches off an endpoint that has failed since `failing_since`, and notifies its owner. Pending deliveries of the
/// endpoint are cancelled afterwards in batches, because this transaction records attempts of all owners and must stay
/// short.
async fn disable(ctx: &Ctx, tx: &Tx, endpoint: Endpoint, failing_since: DateTime<Utc>) -> FlowResult<WebhookDisabled> {
    let texts = store::endpoints::client_texts(tx, std::slice::from_ref(&endpoint)).await?;
    let client_id = endpoint.client.as_ref().and_then(|client| texts.get(client).cloned());
    let now = ctx.clock.now();
    let facts = WebhookDisabled {
        host: host_of(&endpoint.url),
        owner: endpoint.owner,
        client: endpoint.client,
        client_id,
        endpoint: endpoint.id,
        is_approved: endpoint.is_approved,
        failing_since,
        at: now,
    };
    let owner = Holder {
        owner: facts.owner.clone(),
        client: None,
        is_public: false,
    };
    store::endpoints::set_active(tx, owner, &facts.endpoint, false).await?;
    publish(ctx, tx, &Event::WebhookDisabled(Box::new(facts.clone()))).await?;
    Ok(facts)
}
