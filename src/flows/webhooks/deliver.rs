//! Sends due deliveries: claims a batch, sends it, and records the results in batches. No transaction is open during
//! sending.

use crate::{
    ctx::Ctx,
    domain::{
        ids::EndpointId,
        webhook::{
            AfterTry, ClaimRequest, ClaimedDelivery, FinishedAttempt, SignatureInput, after_try, host_of, prefixes,
        },
    },
    flows::{
        FlowResult,
        webhooks::{
            follow_clock::{Jump, TimeReading},
            opened::OpenedSecrets,
            recover::DeliveryVerdicts,
        },
        without_persons,
    },
    ports::outbound::OutboundPost,
    store::{
        self,
        payer_keys::{Keyring, PayerText},
    },
};
use chrono::{DateTime, Utc};

/// Claims due deliveries.
///
/// A delivery whose lease has expired is claimed again with the same retry count. So after a crash the endpoint may get
/// more than four POSTs, but never fewer than four attempts. Source: rules A.5.
pub async fn claim(ctx: &Ctx, wanted: &ClaimRequest) -> FlowResult<Vec<ClaimedDelivery>> {
    let tx = ctx.db.begin("claim_deliveries").await?;
    let claimed = store::outbox::claim(&tx, wanted).await?;
    tx.commit().await?;
    Ok(claimed)
}

/// Sends one claimed delivery; `None` if this instance cannot decrypt its secret or body, or if its payer has been
/// erased.
///
/// Such a delivery counts as no attempt. Its lease expires, and an instance with the right master keys sends it.
/// Deliveries about an erased payer are cancelled. Source: ADR-0014; ADR-0021.
pub async fn send(ctx: &Ctx, opened: &OpenedSecrets, delivery: ClaimedDelivery) -> Option<FinishedAttempt> {
    crate::fail_at("send", "before");
    let posted = match body(ctx, &delivery).await {
        Ok(PayerText::Text(body)) => post(ctx, opened, &delivery, body),
        Ok(PayerText::Erased) => {
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
                "a delivery cannot be decrypted; it stays queued, and its lease will expire"
            );
            return None;
        }
    };
    let ended = ctx.clock.steady();
    crate::fail_at("send", "after");
    let after = match after_try(delivery.retry_count, &outcome) {
        // A test delivery is not retried, because its caller waits for the result.
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
    Some(FinishedAttempt {
        delivery,
        outcome,
        after,
        ended,
    })
}

/// The rendered body of a delivery.
async fn body(ctx: &Ctx, delivery: &ClaimedDelivery) -> anyhow::Result<PayerText> {
    let (reader, texts) = (ctx.db.reader(), [(&delivery.owner, delivery.body.as_str())]);
    let ring = Keyring::for_texts_of(reader, texts).await?;
    let place = store::event_log::body_place(delivery.owner.as_str(), delivery.event.as_str());
    Ok(ring.open(reader, delivery.body.clone(), place)?)
}

/// Removes a delivery about an erased payer from the queue, because there is nothing left to send.
async fn end_erased(ctx: &Ctx, delivery: &ClaimedDelivery) {
    let ended = async {
        let tx = ctx.db.begin("end_erased_delivery").await?;
        store::outbox::cancel_claimed(&tx, delivery, ctx.clock.now()).await?;
        tx.commit().await
    };
    if let Err(error) = ended.await {
        let error = format!("{error:#}");
        tracing::warn!(
            delivery = %delivery.id, error,
            "a delivery about an erased payer could not be cancelled; it stays queued for now"
        );
    }
}

/// Signs a delivery with every valid secret, and creates its headers. An unapproved endpoint receives no personal data.
/// Source: interface §6.1 (3, 4); decisions D32.
fn post(ctx: &Ctx, opened: &OpenedSecrets, delivery: &ClaimedDelivery, body: String) -> anyhow::Result<OutboundPost> {
    let now = ctx.clock.now();
    let former = delivery.former_secrets.iter().filter(|secret| secret.until > now);
    let sealed = former.map(|secret| &secret.sealed).chain([&delivery.secret_sealed]);
    let (owner, endpoint, steady) = (&delivery.owner, &delivery.endpoint, ctx.clock.steady());
    let secrets = sealed
        .map(|sealed| opened.open(ctx.sealer.as_ref(), steady, owner, endpoint, sealed))
        .collect::<Result<Vec<_>, _>>()?;
    let body = if delivery.is_approved {
        body
    } else {
        without_persons(&body)?
    };
    let prefixes = prefixes(&ctx.webhooks.header_prefixes, delivery.header_prefix.as_deref());
    let signing = SignatureInput {
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
        // Retries use a new connection, so that a pooled connection that is already dead does not use up another of the
        // four attempts.
        is_apart: delivery.retry_count > 0,
    })
}

/// Records attempts in a batch. An attempt is dropped if another worker has taken over its lease.
pub async fn record(ctx: &Ctx, tried: &[FinishedAttempt]) -> FlowResult<()> {
    if tried.is_empty() {
        return Ok(());
    }
    let verdicts = DeliveryVerdicts::of(tried);
    let tx = ctx.db.begin("record_tries").await?;
    let locked = verdicts.lock(&tx).await?;
    // The clock is read after these waits, which may be long.
    let now = (ctx.clock.now(), ctx.clock.steady());
    let rows: Vec<_> = tried
        .iter()
        .map(|tried| {
            (
                tried.delivery.clone(),
                tried.outcome.clone(),
                after_jumps(tried, now),
                ctx.ids.ulid(),
            )
        })
        .collect();
    let recorded = store::outbox::finish_batch(&tx, &rows).await?;
    let disabled = verdicts.note(ctx, &tx, &recorded, locked).await?;
    tx.commit().await?;
    for facts in disabled {
        tracing::warn!(
            endpoint = %facts.endpoint, owner = %facts.owner, host = facts.host, failing_since = %facts.failing_since,
            "the endpoint failed for too long and was switched off"
        );
        ctx.due.notify_one();
    }
    Ok(())
}

/// What follows an attempt. The time of a retry is adjusted to all jumps of the clock since the end of the attempt. The
/// worker adjusts times that are stored later only to the last jump.
fn after_jumps(tried: &FinishedAttempt, now: TimeReading) -> AfterTry {
    match (tried.after, Jump::between((tried.outcome.ended_at, tried.ended), now)) {
        (AfterTry::RetryAt(at), Some(jump)) => AfterTry::RetryAt(at + jump.by),
        (after, _) => after,
    }
}

/// Vacuums the table of queued deliveries. The database server would do this only once a minute.
pub async fn tidy(ctx: &Ctx) -> FlowResult<()> {
    Ok(store::outbox::tidy(ctx.db.writer()).await?)
}

/// Releases the claimed but unsent deliveries of a stopping worker.
pub async fn release(ctx: &Ctx, lease_token: &str) -> FlowResult<()> {
    let tx = ctx.db.begin("release_deliveries").await?;
    store::outbox::release(&tx, lease_token).await?;
    tx.commit().await?;
    Ok(())
}

/// Due time of the next delivery to an endpoint that is not busy.
pub async fn next_due(ctx: &Ctx, busy: &[EndpointId]) -> FlowResult<Option<DateTime<Utc>>> {
    Ok(store::outbox::next_due(ctx.db.reader(), ctx.clock.now(), busy).await?)
}
