//! Delivers what is due: claim a batch, send, record a batch. No transaction is open while something is sent.

use crate::{
    ctx::Ctx,
    domain::{
        ids::EndpointId,
        webhook::{AfterTry, ClaimedDelivery, Signing, Tried, Wanted, after_try, host_of, prefixes},
    },
    flows::{
        FlowResult,
        webhooks::{opened::OpenedSecrets, recover::Verdicts},
        without_persons,
    },
    ports::outbound::OutboundPost,
    store::{
        self,
        payer_keys::{Keyring, Opened},
    },
};
use chrono::{DateTime, Utc};

/// Claims deliveries that are due.
///
/// A lease that ran out is claimed again with the same retry count: a crash may add requests, it never takes one of
/// the four tries away. Source: rules A.5.
pub async fn claim(ctx: &Ctx, wanted: &Wanted) -> FlowResult<Vec<ClaimedDelivery>> {
    let tx = ctx.db.begin("claim_deliveries").await?;
    let claimed = store::outbox::claim(&tx, wanted).await?;
    tx.commit().await?;
    Ok(claimed)
}

/// Sends one claimed delivery; `None` when this instance cannot open its secret or body, or when its payer is erased.
///
/// That is no try: the lease ends by itself, and an instance with the right master keys sends it. What told of somebody who
/// is erased is cancelled. Source: ADR-0014; ADR-0021.
pub async fn send(ctx: &Ctx, opened: &OpenedSecrets, delivery: ClaimedDelivery) -> Option<Tried> {
    crate::fail_at("send", "before");
    let posted = match body(ctx, &delivery).await {
        Ok(Opened::Text(body)) => post(ctx, opened, &delivery, body),
        Ok(Opened::Erased) => {
            end_erased(ctx, &delivery).await;
            return None;
        }
        Err(error) => Err(error),
    };
    let outcome = match posted {
        Ok(post) => ctx.partners.outbound.post(post).await,
        Err(error) => {
            tracing::error!(
                delivery = %delivery.id, error = format!("{error:#}"),
                "a delivery cannot be opened; it stays queued, and its lease ends by itself"
            );
            return None;
        }
    };
    crate::fail_at("send", "after");
    let after = match after_try(delivery.retry_count, &outcome) {
        // Whoever asked for a test waits for its answer.
        AfterTry::RetryAt(_) if delivery.is_test => AfterTry::Exhausted,
        after => after,
    };
    if !outcome.is_success() {
        tracing::warn!(
            delivery = %delivery.id, endpoint = %delivery.endpoint, host = host_of(&delivery.url), retry_count = delivery.retry_count,
            status = outcome.status, error = outcome.error, round_over = after == AfterTry::Exhausted, "delivery failed"
        );
    }
    let result = if outcome.is_success() { "delivered" } else { "failed" };
    metrics::counter!("prs_webhook_tries_total", "result" => result).increment(1);
    Some(Tried {
        delivery,
        outcome,
        after,
    })
}

/// The body of a delivery, as it was rendered.
async fn body(ctx: &Ctx, delivery: &ClaimedDelivery) -> anyhow::Result<Opened> {
    let (reader, texts) = (ctx.db.reader(), [(&delivery.owner, delivery.body.as_str())]);
    let ring = Keyring::for_texts_of(reader, texts).await?;
    let place = store::event_log::body_place(delivery.owner.as_str(), delivery.event.as_str());
    Ok(ring.open(reader, delivery.body.clone(), place)?)
}

/// Takes a delivery out of the queue whose payer is erased: there is nothing left to send.
async fn end_erased(ctx: &Ctx, delivery: &ClaimedDelivery) {
    let ended = async {
        let tx = ctx.db.begin("end_erased_delivery").await?;
        store::outbox::cancel_claimed(&tx, delivery, ctx.clock.now()).await?;
        tx.commit().await
    };
    if let Err(error) = ended.await {
        let error = format!("{error:#}");
        tracing::warn!(delivery = %delivery.id, error, "a delivery of an erased payer stays queued for now");
    }
}

/// Signs a delivery with every secret that is good now, and writes its headers. An endpoint that nobody approved is told
/// nothing about persons. Source: interface §6.1 (3, 4); decisions D32.
fn post(ctx: &Ctx, opened: &OpenedSecrets, delivery: &ClaimedDelivery, body: String) -> anyhow::Result<OutboundPost> {
    let now = ctx.clock.now();
    let former = delivery.former_secrets.iter().filter(|secret| secret.until > now);
    let sealed = former.map(|secret| &secret.sealed).chain([&delivery.secret_sealed]);
    let (whose, steady) = ((&delivery.owner, &delivery.endpoint), ctx.clock.steady());
    let secrets = sealed
        .map(|sealed| opened.open(ctx.sealer.as_ref(), steady, whose, sealed))
        .collect::<Result<Vec<_>, _>>()?;
    let body = match delivery.is_approved {
        true => body,
        false => without_persons(&body)?,
    };
    let prefixes = prefixes(&ctx.webhooks.header_prefixes, delivery.header_prefix.as_deref());
    let signing = Signing {
        prefixes: &prefixes,
        is_standard: ctx.webhooks.standard_headers,
        secrets: &secrets,
        id: delivery.id.as_str(),
        now,
        body: body.as_bytes(),
    };
    let mut headers = signing.headers();
    for prefix in prefixes {
        headers.push((format!("{prefix}-delivery"), delivery.id.to_string()));
        headers.push((format!("{prefix}-retry-count"), delivery.retry_count.to_string()));
        if delivery.is_test {
            headers.push((format!("{prefix}-test"), "true".to_owned()));
        }
        if delivery.is_replay {
            headers.push((format!("{prefix}-replay"), "true".to_owned()));
        }
    }
    Ok(OutboundPost {
        url: delivery.url.clone(),
        headers,
        body,
        // A round has four chances: what broke on a connection that was dead before it began is none of the others.
        is_apart: delivery.retry_count > 0,
    })
}

/// Records tries together. A try whose lease was taken over by somebody else is dropped.
pub async fn record(ctx: &Ctx, tried: &[Tried]) -> FlowResult<()> {
    if tried.is_empty() {
        return Ok(());
    }
    let rows: Vec<_> = tried
        .iter()
        .map(|tried| {
            (
                tried.delivery.clone(),
                tried.outcome.clone(),
                tried.after,
                ctx.ids.ulid(),
            )
        })
        .collect();
    let verdicts = Verdicts::of(tried);
    let tx = ctx.db.begin("record_tries").await?;
    let locked = verdicts.lock(&tx).await?;
    let recorded = store::outbox::finish_batch(&tx, &rows).await?;
    let disabled = verdicts.note(ctx, &tx, &recorded, locked).await?;
    tx.commit().await?;
    for facts in disabled {
        tracing::warn!(
            endpoint = %facts.endpoint, owner = %facts.owner, host = facts.host, failing_since = %facts.failing_since,
            "the endpoint took nothing for too long and is switched off"
        );
        ctx.due.notify_one();
    }
    Ok(())
}

/// Keeps the queue as short as what waits: the server would do so by itself, but only once a minute.
pub async fn tidy(ctx: &Ctx) -> FlowResult<()> {
    Ok(store::outbox::tidy(ctx.db.writer()).await?)
}

/// Releases what a stopping worker has claimed and not sent.
pub async fn release(ctx: &Ctx, lease_token: &str) -> FlowResult<()> {
    let tx = ctx.db.begin("release_deliveries").await?;
    store::outbox::release(&tx, lease_token).await?;
    tx.commit().await?;
    Ok(())
}

/// When the next delivery is due whose endpoint is not among the busy ones.
pub async fn next_due(ctx: &Ctx, busy: &[EndpointId]) -> FlowResult<Option<DateTime<Utc>>> {
    Ok(store::outbox::next_due(ctx.db.reader(), ctx.clock.now(), busy).await?)
}
