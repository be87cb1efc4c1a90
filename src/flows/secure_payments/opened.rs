//! A secure payment opened by its token, with the requests that it pays.

use crate::{
    ctx::Ctx,
    domain::{
        caller::PlatformCaller,
        client_id::ClientId,
        ids::{RequestRowId, SecurePaymentToken},
        network::Network,
        paying::charge::Charges,
        refusal::{Refusal, RefusalKind},
        request::{Origin, Request},
        secure_payment::{
            PaymentSigns, SecurePayment, SecurePaymentStatus, UnpayableLink,
            broadcast::may_arrive,
            fee_plan::{FeePlan, PlannedPayment},
        },
    },
    flows::{Fault, FlowResult},
    store::{self, Scope, Sealing},
};
use alloy::primitives::{B256, U256};
use anyhow::anyhow;
use chrono::{DateTime, Utc};
use std::collections::{HashMap, HashSet};

/// A secure payment with its requests, in order, at the time of the call.
#[derive(Debug, Clone)]
pub struct OpenedLink {
    /// The secure payment.
    pub payment: SecurePayment,
    /// Its requests.
    pub requests: Vec<Request>,
    /// The time.
    pub now: DateTime<Utc>,
}

/// Opens a secure payment in any state: the token is the only credential. Errors: an unknown token (404). Source:
/// interface §2.10; rules P.3.7.
pub async fn by_token(ctx: &Ctx, token: &str) -> FlowResult<OpenedLink> {
    let token = SecurePaymentToken(token.to_owned());
    let found = store::secure_payments::by_token(ctx.db.reader(), &token).await?;
    let payment = found.ok_or_else(|| Refusal::not_found("Secure payment not found"))?;
    with_requests(ctx, payment).await
}

/// Reads the requests of a secure payment.
pub(super) async fn with_requests(ctx: &Ctx, payment: SecurePayment) -> FlowResult<OpenedLink> {
    let owner = Scope::of_platform(&payment.origin.platform);
    let ids: Vec<String> = payment.items.iter().map(|item| item.request_id.0.clone()).collect();
    let mut known = store::requests::find_all(ctx.db.reader(), &owner, &ids).await?;
    let requests = ids.iter().map(|id| known.remove(id));
    let requests: Option<Vec<Request>> = requests.collect();
    let missing = || Fault(anyhow!("a request of secure payment {} is missing", payment.id));
    let requests = requests.ok_or_else(missing)?;
    let now = ctx.clock.now();
    Ok(OpenedLink { requests, now, payment })
}

/// The public client ID with which a stranger may have created a secure payment; `None` if a secret credential created
/// it.
pub(super) async fn public_maker(ctx: &Ctx, payment: &SecurePayment) -> FlowResult<Option<ClientId>> {
    let Origin {
        platform,
        client: Some(row),
        orchestrator: None,
        ..
    } = &payment.origin
    else {
        return Ok(None);
    };
    let client = store::client_ids::find(ctx.db.reader(), platform, row).await?;
    Ok(client.filter(ClientId::is_public))
}

/// Whether the redirect of a secure payment leads out of the allowed domains of the public client ID that created it.
/// Such a redirect may be the choice of a stranger who read the client ID off a page. Source: decisions D27.
pub async fn has_foreign_redirect(ctx: &Ctx, opened: &OpenedLink) -> FlowResult<bool> {
    let Some(redirect) = &opened.payment.about.redirect else {
        return Ok(false);
    };
    let maker = public_maker(ctx, &opened.payment).await?;
    Ok(maker.is_some_and(|maker| !maker.lists(&redirect.url)))
}

/// The unpaid requests of which the chain shows an unconfirmed payment on a network.
pub(super) async fn seen_requests(
    ctx: &Ctx,
    conn: &impl Sealing,
    network: Network,
    requests: &[Request],
) -> FlowResult<HashSet<RequestRowId>> {
    let awaiting = requests.iter().filter(|request| request.payable().is_ok());
    let awaiting: HashMap<B256, &Request> = awaiting.map(|request| (request.reference.topic(), request)).collect();
    let topics: Vec<B256> = awaiting.keys().copied().collect();
    let seen = store::observations::list_seen_by_topics(conn, network, &topics).await?;
    let matching = seen.iter().filter_map(|observed| {
        let request = awaiting.get(&observed.reference_topic)?;
        let is_match = request.matches(observed, &[], &ctx.catalogue);
        is_match.then(|| request.row.clone())
    });
    Ok(matching.collect())
}

impl OpenedLink {
    /// Whether the caller has a secret credential of the platform. Any other caller may be anyone with the token.
    pub(super) fn is_of(&self, caller: &PlatformCaller) -> bool {
        !caller.is_public() && caller.platform == self.payment.origin.platform
    }

    /// State at this time.
    pub fn status(&self) -> SecurePaymentStatus {
        self.payment.status_at(self.now)
    }

    /// Whether the chain shows an unconfirmed payment of an unpaid request of the link. A link that cannot be paid
    /// needs no lookup.
    pub(super) async fn is_seen(&self, ctx: &Ctx) -> FlowResult<bool> {
        if self.payable().is_err() {
            return Ok(false);
        }
        let network = self.payment.network;
        Ok(!seen_requests(ctx, ctx.db.reader(), network, &self.requests)
            .await?
            .is_empty())
    }

    /// Signs that a payment of the link is in flight.
    pub async fn payment_signs(&self, ctx: &Ctx) -> FlowResult<PaymentSigns> {
        Ok(PaymentSigns {
            is_seen: self.is_seen(ctx).await?,
            broadcast_until: self.broadcast_until(ctx).await?,
        })
    }

    /// When the last payment expires that this service broadcast, if it may still arrive.
    pub(super) async fn broadcast_until(&self, ctx: &Ctx) -> FlowResult<Option<DateTime<Utc>>> {
        if !ctx.partners.chains.broadcasts.contains_key(&self.payment.network) {
            return Ok(None);
        }
        let Some(until) = store::secure_payments::last_expiration(ctx.db.reader(), &self.payment).await? else {
            return Ok(None);
        };
        let credited_until = self.credited_until(ctx).await?;
        Ok(may_arrive(until, credited_until).then_some(until))
    }

    /// Time of a final block up to which all payments of the link are credited; `None` if it is unknown.
    pub async fn credited_until(&self, ctx: &Ctx) -> FlowResult<Option<DateTime<Utc>>> {
        let payment = &self.payment;
        let reader = ctx.db.reader();
        Ok(store::cursors::read_until(reader, payment.network, payment.created_at).await?)
    }

    /// Until when a payment counts as in flight; `None` if there is no sign of one and no payer reported one.
    pub fn in_flight_until(&self, signs: PaymentSigns) -> Option<DateTime<Utc>> {
        self.payment.in_flight_until(signs, self.now)
    }

    /// Errors: the payment can no longer be paid (403); it is paid (409).
    pub fn payable(&self) -> Result<(), UnpayableLink> {
        self.payment.payable_at(self.now)
    }

    /// Errors: a Safe is about to pay the link (423).
    pub fn unlocked(&self) -> Result<(), Refusal> {
        match self.payment.locked_at(self.now) {
            Some(_) => Err(Refusal::new(RefusalKind::Locked, "Secure payment is in progress")),
            None => Ok(()),
        }
    }

    /// When the lock of a Safe that the caller reports now ends, unless the report says otherwise.
    pub fn safe_deadline(&self, caller: &PlatformCaller) -> DateTime<Utc> {
        self.payment.usual_deadline(self.is_of(caller), self.now)
    }

    /// The requests and the fees of each request.
    pub fn due(&self) -> impl Iterator<Item = (&Request, &Charges)> {
        let charges = self.payment.items.iter().map(|item| &item.charges);
        self.requests.iter().zip(charges)
    }

    /// Id of the currency of all requests; `None` if they are in several currencies.
    pub fn sole_currency(&self) -> Option<&str> {
        let mut ids = self.requests.iter().map(|request| &request.terms.payment_currency);
        let first = ids.next()?;
        ids.all(|id| id == first).then_some(first)
    }

    /// Fees in dollars; `None` unless the whole payment is in one dollar token.
    pub fn fee_plan(&self, ctx: &Ctx) -> Option<FeePlan> {
        let currency = ctx.catalogue.find(self.sole_currency()?)?;
        let payments: Vec<PlannedPayment> = self
            .due()
            .map(|(request, charges)| (charges.gross_of(request.ledger.expected), charges.clone()))
            .collect();
        let flow = self.payment.flow;
        FeePlan::of(flow, flow.usual_bearer(), currency, &payments)
    }

    /// The amount due of each request that can be paid, and the fees that earlier payments did not pay.
    pub fn unpaid(&self) -> Vec<(&Request, Charges, U256)> {
        let open = self.due().filter(|(request, _)| request.payable().is_ok());
        let unpaid = open.map(|(request, charges)| {
            let charges = charges.after(request.ledger.orchestrator_fees);
            (request, charges, request.ledger.remaining())
        });
        unpaid.collect()
    }
}
