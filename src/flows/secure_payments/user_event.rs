//! Takes what a payment page reports of its visitor, and tells it.

use super::opened::{self, Opened};
use crate::{
    ctx::Ctx,
    domain::{
        caller::PlatformCaller,
        client_id::ClientId,
        event::{Event, ForeignJson, PayerStep},
        refusal::{Refusal, RefusalKind},
        secure_payment::{
            SecurePaymentStatus, Unpayable,
            step::{Counted, OF_ADDRESS_MAX, OF_PAYMENT_MAX, PayerStepKind, Report},
        },
    },
    flows::{FlowResult, publish},
    store,
};
use std::{net::IpAddr, sync::PoisonError};

/// Tells a step of a payer, with the event in the same commit.
///
/// Errors: it cannot be paid any more (403); a value shows the address of a wallet (400); too many came for the secure
/// payment, or for it from this address, or from this address for all, or for those of the public client ID that made it
/// (429). Source: interface §6.3.
pub async fn run(
    ctx: &Ctx,
    opened: &Opened,
    (caller, address): (Option<&PlatformCaller>, Option<IpAddr>),
    report: &Report,
) -> FlowResult<()> {
    let payment = &opened.payment;
    // The page may report late what it did before the payment was final.
    match opened.payable() {
        Ok(()) | Err(Unpayable::Completed) => {}
        Err(why) => return Err(Refusal::from(why).into()),
    }
    let now = ctx.clock.now();
    report.check(now)?;
    let maker = opened::maker(ctx, payment).await?;
    let is_own = caller.is_some_and(|caller| opened.is_of(caller));
    let counted = [
        Some(of_link_and_address(opened, address)),
        Some(of_link(opened)),
        address.filter(|_| !is_own).map(|address| of_address(ctx, address)),
        maker.filter(ClientId::is_public).map(|maker| of_maker(ctx, &maker)),
    ];
    count(ctx, counted.into_iter().flatten())?;
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

/// What reports are counted for, how many an hour has room for, and what is said to the next one.
type Kept = (String, u32, &'static str);

const OF_LINK: &str = "Too many reports came for this secure payment; it can be paid all the same";

fn of_link_and_address(opened: &Opened, address: Option<IpAddr>) -> Kept {
    let address = address.map_or_else(String::new, |address| address.to_string());
    (
        format!("{} {address}", opened.payment.id.as_str()),
        OF_ADDRESS_MAX,
        OF_LINK,
    )
}

fn of_link(opened: &Opened) -> Kept {
    (opened.payment.id.as_str().to_owned(), OF_PAYMENT_MAX, OF_LINK)
}

fn of_address(ctx: &Ctx, address: IpAddr) -> Kept {
    let sentence = "As many reports came from this address within an hour as caps.reports_of_address allows; secure \
                    payments can be paid all the same";
    (format!("address {address}"), ctx.caps.reports_of_address, sentence)
}

fn of_maker(ctx: &Ctx, maker: &ClientId) -> Kept {
    let sentence = "As many reports came for the secure payments of this client ID within an hour as caps.public_reports \
                    allows; they can be paid all the same";
    let key = format!("client {} {}", maker.platform, maker.row);
    (key, ctx.caps.public_reports, sentence)
}

/// Counts a report for all that it is counted for, or for nothing. Errors: 429.
fn count(ctx: &Ctx, counted: impl Iterator<Item = Kept>) -> Result<(), Refusal> {
    let now = ctx.clock.steady();
    let mut reports = ctx.payment_pages.reports.lock().unwrap_or_else(PoisonError::into_inner);
    let mut next = Vec::new();
    for (key, max, sentence) in counted {
        let one_more = Counted::one_more(reports.get(&key).copied(), max, now);
        let one_more = one_more.map_err(|wait_s| Refusal::new(RefusalKind::TooMany, sentence).after(wait_s))?;
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
