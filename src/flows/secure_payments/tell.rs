//! Reports to the owner of a secure payment that a wallet tried to pay it and may not.

use crate::{
    ctx::Ctx,
    domain::{
        address::Address,
        elapsed,
        event::{AccessRejected, Event},
        ids::OwnerId,
        secure_payment::{
            SecurePayment,
            access::{RejectionNotice, TOLD_IN_AN_HOUR, TOLD_WINDOW, occasion},
        },
        webhook::DeliveryState,
    },
    flows::{FlowResult, publish},
    store,
};
use chrono::{DateTime, Utc};

/// Sends an event about a rejected wallet. No event is sent in two cases: an event about this wallet was sent within
/// the last ten minutes and a receiver accepted the event; or the maximum number of other wallets was reported within
/// the last hour. Suppressed events are counted. Source: interface §6.3.
pub(super) async fn refused(ctx: &Ctx, payment: &SecurePayment, wallet: &Address) -> FlowResult<()> {
    let (now, reader) = (ctx.clock.now(), ctx.db.reader());
    let (since, until) = elapsed::period(TOLD_WINDOW, now);
    let before = store::secure_payments::find_report(reader, payment, wallet).await?;
    let has_failed = match before {
        Some((occasions, at)) => has_failed_for_all(ctx, event(payment, *wallet, occasions, at)).await?,
        None => false,
    };
    let told = |before: Option<(u64, DateTime<Utc>)>, has_failed| {
        before.map(|(occasions, at)| RejectionNotice {
            occasions,
            at,
            has_failed,
        })
    };
    let others = store::secure_payments::count_told(reader, payment, since, until, TOLD_IN_AN_HOUR).await?;
    if occasion(told(before, has_failed), others, now).is_none() {
        untold();
        return Ok(());
    }
    // Several calls may reach this point at the same time. Only the first one that gets the lock sends the event.
    let tx = ctx.db.begin("tell_refused_wallet").await?;
    store::secure_payments::lock_one(&tx, &payment.origin.platform, &payment.id).await?;
    let present = store::secure_payments::find_report(&tx, payment, wallet).await?;
    let others = store::secure_payments::count_told(&tx, payment, since, until, TOLD_IN_AN_HOUR).await?;
    let Some(next) = occasion(told(present, has_failed && present == before), others, now) else {
        untold();
        return Ok(());
    };
    store::secure_payments::note_told(&tx, payment, wallet, next, now).await?;
    crate::fail_at("tell_refused_wallet", "noted");
    if let Some(event) = event(payment, *wallet, next, now) {
        publish(ctx, &tx, &event).await?;
    }
    tx.commit().await?;
    ctx.due.notify_one();
    Ok(())
}

/// Counts, in a metric, a rejected wallet for which no event is sent.
fn untold() {
    metrics::counter!("prs_refused_wallets_untold_total").increment(1);
}

/// Whether the deliveries of an event failed for all receivers.
async fn has_failed_for_all(ctx: &Ctx, event: Option<Event>) -> FlowResult<bool> {
    let Some(event) = event else { return Ok(false) };
    let reader = ctx.db.reader();
    let Event::AccessRejected(facts) = &event else {
        return Ok(false);
    };
    let owner = OwnerId::from(&facts.platform);
    let Some(id) = store::outbox::event_of_key(reader, &owner, &event.deduplication_key()).await? else {
        return Ok(false);
    };
    let states = store::outbox::states_of_event(reader, &owner, &id).await?;
    Ok(!states.is_empty() && states.keys().all(|state| *state == DeliveryState::Failed))
}

/// The event about an attempt. If the link has several requests, the event names the first.
fn event(payment: &SecurePayment, wallet: Address, occasion: u64, at: DateTime<Utc>) -> Option<Event> {
    let first = payment.items.first()?;
    Some(Event::AccessRejected(Box::new(AccessRejected {
        platform: payment.origin.platform.clone(),
        client: payment.origin.client.clone(),
        request: first.request_id.clone(),
        wallet,
        paid: None,
        occasion,
        at,
    })))
}
