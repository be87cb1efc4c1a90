//! A secure payment that somebody opens with its token, and the requests that it pays.

use crate::{
    ctx::Ctx,
    domain::{
        caller::PlatformCaller,
        client_id::ClientId,
        ids::SecurePaymentToken,
        paying::charge::Charges,
        refusal::Refusal,
        request::Request,
        secure_payment::{
            SecurePayment, SecurePaymentStatus, Unpayable,
            fee_plan::{FeePlan, Planned},
        },
    },
    flows::{Fault, FlowResult},
    store::{self, Scope},
};
use alloy::primitives::{B256, U256};
use anyhow::anyhow;
use chrono::{DateTime, Utc};
use std::collections::HashMap;

/// A secure payment with its requests, in their order, as it is at a moment.
#[derive(Debug, Clone)]
pub struct Opened {
    /// The secure payment.
    pub payment: SecurePayment,
    /// Its requests.
    pub requests: Vec<Request>,
    /// The moment.
    pub now: DateTime<Utc>,
}

/// Opens a secure payment, whatever its state: its token is all that it takes. Errors: nobody made it (404).
/// Source: interface §2.10; rules P.3.7.
pub async fn by_token(ctx: &Ctx, token: &str) -> FlowResult<Opened> {
    let token = SecurePaymentToken(token.to_owned());
    let found = store::secure_payments::by_token(ctx.db.reader(), &token).await?;
    let payment = found.ok_or_else(|| Refusal::not_found("Secure payment not found"))?;
    with_requests(ctx, payment).await
}

/// Reads the requests of a secure payment.
pub(super) async fn with_requests(ctx: &Ctx, payment: SecurePayment) -> FlowResult<Opened> {
    let owner = Scope {
        platform: payment.origin.platform.clone(),
        client: None,
    };
    let ids: Vec<String> = payment.items.iter().map(|item| item.request_id.0.clone()).collect();
    let mut known = store::requests::find_all(ctx.db.reader(), &owner, &ids).await?;
    let requests = ids.iter().map(|id| known.remove(id));
    let requests: Option<Vec<Request>> = requests.collect();
    let missing = || Fault(anyhow!("a request of secure payment {} is not there", payment.id));
    let requests = requests.ok_or_else(missing)?;
    let now = ctx.clock.now();
    Ok(Opened { requests, now, payment })
}

/// The client ID that made a secure payment; `None` of one that a key or a session made.
pub(super) async fn maker(ctx: &Ctx, payment: &SecurePayment) -> FlowResult<Option<ClientId>> {
    let Some(row) = &payment.origin.client else {
        return Ok(None);
    };
    Ok(store::client_ids::find(ctx.db.reader(), &payment.origin.platform, row).await?)
}

/// Whether the redirect of a secure payment leads out of the allowed domains of the public client ID that made it: a
/// stranger who read that client ID off a page may have chosen it. Source: decisions D27.
pub async fn has_foreign_redirect(ctx: &Ctx, opened: &Opened) -> FlowResult<bool> {
    let Some(redirect) = &opened.payment.about.redirect else {
        return Ok(false);
    };
    let maker = maker(ctx, &opened.payment).await?;
    Ok(maker.is_some_and(|maker| maker.is_public() && !maker.lists(&redirect.url)))
}

impl Opened {
    /// Whether a caller is its platform itself. Whoever holds no secret of that may be anybody who has the token.
    pub(super) fn is_of(&self, caller: &PlatformCaller) -> bool {
        !caller.is_public() && caller.platform == self.payment.origin.platform
    }

    /// State at the moment.
    pub fn status(&self) -> SecurePaymentStatus {
        self.payment.status_at(self.now)
    }

    /// Whether a payment of one of its requests that await money is seen on the chain and not final; nothing is looked up
    /// of one that cannot be paid.
    pub async fn is_seen(&self, ctx: &Ctx) -> FlowResult<bool> {
        if self.payable().is_err() {
            return Ok(false);
        }
        let awaiting = self.requests.iter().filter(|request| request.payable().is_ok());
        let awaiting: HashMap<B256, &Request> = awaiting.map(|request| (request.reference.topic(), request)).collect();
        let topics: Vec<B256> = awaiting.keys().copied().collect();
        let seen = store::observations::list_seen_by_topics(ctx.db.reader(), self.payment.network, &topics).await?;
        Ok(seen.iter().any(|observed| {
            let request = awaiting.get(&observed.reference_topic);
            request.is_some_and(|request| request.matches(observed, &[], &ctx.catalogue))
        }))
    }

    /// The time until which a payment counts as in flight; `None` when no payment is seen and no payer reported one.
    pub fn in_flight_until(&self, is_seen: bool) -> Option<DateTime<Utc>> {
        self.payment.in_flight_until(is_seen, self.now)
    }

    /// Errors: it cannot be paid any more (403), or it is paid (409).
    pub fn payable(&self) -> Result<(), Unpayable> {
        self.payment.payable_at(self.now)
    }

    /// Requests and what is charged on top of each.
    pub fn due(&self) -> impl Iterator<Item = (&Request, &Charges)> {
        let charges = self.payment.items.iter().map(|item| &item.charges);
        self.requests.iter().zip(charges)
    }

    /// Its fees in dollars; `None` where it is not paid in one dollar token.
    pub fn fee_plan(&self, ctx: &Ctx) -> Option<FeePlan> {
        let currencies = self.requests.iter().map(|request| &request.terms.payment_currency);
        let mut currencies = currencies.clone().zip(currencies.skip(1));
        let first = self.requests.first()?;
        if currencies.any(|(one, next)| one != next) {
            return None;
        }
        let currency = ctx.catalogue.find(&first.terms.payment_currency)?;
        let payments: Vec<Planned> = self
            .due()
            .map(|(request, charges)| (request.ledger.expected, charges.clone()))
            .collect();
        let flow = self.payment.flow;
        FeePlan::of(flow, flow.usual_bearer(), currency, &payments)
    }

    /// What is left to be paid of each request that can be paid.
    pub fn unpaid(&self) -> Vec<(&Request, &Charges, U256)> {
        let open = self.due().filter(|(request, _)| request.payable().is_ok());
        open.map(|(request, charges)| (request, charges, request.ledger.remaining()))
            .collect()
    }
}
