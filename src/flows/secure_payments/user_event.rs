//! Accepts reports of a payment page about its visitor, and sends them as events.

use super::opened::{self, OpenedLink};
use crate::{
    ctx::Ctx,
    domain::{
        caller::PlatformCaller,
        client_id::ClientId,
        event::{Event, ForeignJson, PayerStep},
        refusal::{Refusal, RefusalKind},
        secure_payment::{
            SecurePaymentStatus, UnpayableLink,
            step::{OF_ADDRESS_MAX, OF_PAYMENT_MAX, PageReport, PayerStepKind, ReportCount},
        },
    },
    flows::{FlowResult, publish},
    store,
};
use std::{net::IpAddr, sync::PoisonError};

/// Stores a report about a step of a payer, with its event in the same commit.
///
/// Errors:
/// - 403: the payment can no longer be paid.
/// - 400: a value contains the address of a wallet.
/// - 429: one of four limits is reached: reports about this secure payment, reports about this secure payment from this
///   address, all reports from this address, or reports about all secure payments of the public client ID that created
///   this secure payment.
///
/// Source: interface §6.3.
pub async fn run(
    ctx: &Ctx,
    opened: &OpenedLink,
    caller: Option<&PlatformCaller>,
    address: Option<IpAddr>,
    report: &PageReport,
) -> FlowResult<()> {
    let payment = &opened.payment;
    // Reports are accepted after the payment is complete, because a page may send a report late.
    match opened.payable() {
        Ok(()) | Err(UnpayableLink::Completed) => {}
        Err(why) => return Err(Refusal::from(why).into()),
    }
    let now = ctx.clock.now();
    report.check(now)?;
    let maker = opened::public_maker(ctx, payment).await?;
    let is_own = caller.is_some_and(|caller| opened.is_of(caller));
    let counted = [
        Some(of_link_and_address(opened, address)),
        Some(of_link(opened)),
        address.filter(|_| !is_own).map(|address| of_address(ctx, address)),
        maker.map(|maker| of_maker(ctx, &maker)),
    ];
    count(ctx, counted.into_iter().flatten())?;
    let members = report.properties.iter().map(|(name, value)| {
        // A text in JSON notation.
        format!("{}:{}", quoted(name), quoted(value))
    });
    let properties = format!("{{{}}}", members.collect::<Vec<_>>().join(","));
    let event = Event::PayerStep(Box::new(PayerStep {
        platform: payment.origin.platform.clone(),
        client: payment.origin.client.clone(),
        secure_payment_token: payment.token.as_str().to_owned(),
        step: report.step,
        requests: payment.items.iter().map(|item| item.request_id.clone()).collect(),
        orchestrator: payment.origin.orchestrator.as_ref().map(ToString::to_string),
        occurred_at: report.occurred_at,
        received_at: now,
        properties: ForeignJson(properties),
    }));
    let is_hint =
        report.step == PayerStepKind::PaymentApprovedInWallet && opened.status() == SecurePaymentStatus::Pending;
    // A payment that this service broadcast is in flight anyway, and it is known when this ends.
    let is_hint = is_hint && opened.broadcast_until(ctx).await?.is_none();
    let tx = ctx.db.begin("tell_payer_step").await?;
    if is_hint {
        store::secure_payments::hint(&tx, payment, now).await?;
        crate::fail_at("tell_payer_step", "hinted");
    }
    publish(ctx, &tx, &event).await?;
    tx.commit().await?;
    ctx.due.notify_one();
    Ok(())
}

/// A limit for reports: the key of its counter, the maximum number of reports per hour, and the message for a report
/// above the maximum.
type ReportQuota = (String, u32, &'static str);

const OF_LINK: &str = "Too many reports for this secure payment; it can still be paid";

fn of_link_and_address(opened: &OpenedLink, address: Option<IpAddr>) -> ReportQuota {
    let address = address.map_or_else(String::new, |address| address.to_string());
    (
        format!("{} {address}", opened.payment.id.as_str()),
        OF_ADDRESS_MAX,
        OF_LINK,
    )
}

fn of_link(opened: &OpenedLink) -> ReportQuota {
    (opened.payment.id.as_str().to_owned(), OF_PAYMENT_MAX, OF_LINK)
}

fn of_address(ctx: &Ctx, address: IpAddr) -> ReportQuota {
    let sentence = "This address has reached its limit of reports per hour (caps.reports_of_address); secure payments \
                    can still be paid";
    (format!("address {address}"), ctx.caps.reports_of_address, sentence)
}

fn of_maker(ctx: &Ctx, maker: &ClientId) -> ReportQuota {
    let sentence = "The secure payments of this client ID have reached their limit of reports per hour \
                    (caps.public_reports); they can still be paid";
    let key = format!("client {} {}", maker.platform, maker.row);
    (key, ctx.caps.public_reports, sentence)
}

/// Counts a report on every counter, or on none. Errors: 429.
fn count(ctx: &Ctx, counted: impl Iterator<Item = ReportQuota>) -> Result<(), Refusal> {
    let now = ctx.clock.steady();
    let mut reports = ctx.payment_pages.reports.lock().unwrap_or_else(PoisonError::into_inner);
    let mut next = Vec::new();
    for (key, max, sentence) in counted {
        let one_more = ReportCount::one_more(reports.get(&key).copied(), max, now);
        let one_more = one_more.map_err(|wait_s| Refusal::new(RefusalKind::TooMany, sentence).after(wait_s))?;
        next.push((key, one_more));
    }
    for (key, one_more) in next {
        reports.put(key, one_more);
    }
    Ok(())
}

/// A text in JSON notation.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
