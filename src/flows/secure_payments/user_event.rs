//! Takes what a payment page reports of its visitor, and tells it.

use super::opened::Opened;
use crate::{
    ctx::Ctx,
    domain::{
        event::{Event, ForeignJson, PayerStep, PayerStepKind},
        refusal::{Refusal, RefusalKind},
        secure_payment::{
            SecurePaymentStatus, Unpayable,
            step::{Counted, OF_ADDRESS_MAX, OF_PAYMENT_MAX, Report},
        },
    },
    flows::{FlowResult, publish},
    store,
};
use std::{net::IpAddr, sync::PoisonError};

/// Tells a step of a payer, with the event in the same commit.
///
/// Errors: it cannot be paid any more (403); a value shows the address of a wallet (400); too many came for the secure
/// payment, or for it from this address (429). Source: interface §6.3.
pub async fn run(ctx: &Ctx, opened: &Opened, address: Option<IpAddr>, report: &Report) -> FlowResult<()> {
    let payment = &opened.payment;
    // The page may report late what it did before the payment was final.
    match opened.payable() {
        Ok(()) | Err(Unpayable::Completed) => {}
        Err(why) => return Err(Refusal::from(why).into()),
    }
    let now = ctx.clock.now();
    report.check(now)?;
    count(ctx, opened, address)?;
    let members = report.properties.iter().map(|(name, value)| {
        // A text as JSON writes it.
        format!("{}:{}", quoted(name), quoted(value))
    });
    let properties = format!("{{{}}}", members.collect::<Vec<_>>().join(","));
    let event = Event::PayerStep(Box::new(PayerStep {
        platform: payment.origin.platform.clone(),
        client: payment.origin.client.clone(),
        secure_payment_token: payment.token.as_str().to_owned(),
        step: report.step,
        requests: payment.items.iter().map(|item| item.request_id.clone()).collect(),
        orchestrator: None,
        occurred_at: report.occurred_at,
        received_at: now,
        properties: ForeignJson(properties),
    }));
    let tx = ctx.db.begin("tell_payer_step").await?;
    if report.step == PayerStepKind::PaymentApprovedInWallet && opened.status() == SecurePaymentStatus::Pending {
        store::secure_payments::hint(&tx, payment, now).await?;
        crate::fail_at("tell_payer_step", "hinted");
    }
    publish(ctx, &tx, &event).await?;
    tx.commit().await?;
    ctx.due.notify_one();
    Ok(())
}

/// Counts a report for its secure payment and for the address that it comes from. Errors: 429.
fn count(ctx: &Ctx, opened: &Opened, address: Option<IpAddr>) -> Result<(), Refusal> {
    let id = opened.payment.id.as_str();
    let address = address.map_or_else(String::new, |address| address.to_string());
    let now = ctx.clock.steady();
    let mut reports = ctx.payment_pages.reports.lock().unwrap_or_else(PoisonError::into_inner);
    let counted = [
        (format!("{id} {address}"), OF_ADDRESS_MAX),
        (id.to_owned(), OF_PAYMENT_MAX),
    ];
    let mut next = Vec::with_capacity(counted.len());
    for (key, max) in counted {
        let one_more = Counted::one_more(reports.get(&key).copied(), max, now).map_err(|wait_s| {
            let sentence = "Too many reports came for this secure payment; it can be paid all the same";
            Refusal::new(RefusalKind::TooMany, sentence).after(wait_s)
        })?;
        next.push((key, one_more));
    }
    for (key, one_more) in next {
        reports.put(key, one_more);
    }
    Ok(())
}

/// A text as JSON.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
