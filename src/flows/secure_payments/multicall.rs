//! Reads multicalls: links that pay the requests of other links.

use super::{
    made::url,
    open::{self, LinkView, LinkVisit},
    opened::{OpenedLink, seen_requests, with_requests},
};
use crate::{
    ctx::Ctx,
    domain::{
        caller::PlatformCaller,
        child_failure::{ChildFacts, ChildFailure},
        ids::SecurePaymentToken,
        network::Network,
        paying::charge::{Charges, FeeBearer},
        refusal::Refusal,
        request::Request,
        secure_payment::{
            PaymentSigns, SecurePayment, UnpayableLink,
            fee_plan::FeePlan,
            multicall::{AmountTotals, BlockReason, MulticallStatus, block_of, facts_of},
        },
    },
    flows::FlowResult,
    store,
};
use alloy::primitives::U256;
use std::collections::{BTreeSet, HashMap};

/// A request of a multicall, with the link that pays it alone.
#[derive(Debug, Clone)]
pub struct MulticallChild {
    /// Token of the link.
    pub token: SecurePaymentToken,
    /// The link; `None` when it no longer exists.
    pub link: Option<SecurePayment>,
    /// The request.
    pub request: Request,
    /// The fees.
    pub charges: Charges,
    /// Why the multicall cannot pay the link; `None` if it can.
    pub block: Option<BlockReason>,
    /// The fees in dollars.
    pub fee_plan: Option<FeePlan>,
}

/// A multicall with its children at the time of the call.
#[derive(Debug, Clone)]
pub struct OpenedMulticall {
    /// State.
    pub status: MulticallStatus,
    /// The children, in order.
    pub children: Vec<MulticallChild>,
    /// Whether the transaction that pays all children can be issued.
    pub can_execute: bool,
    /// Whether another payment could be a duplicate.
    pub is_in_flight: bool,
}

/// A multicall as its owner sees it.
#[derive(Debug, Clone)]
pub struct FoundMulticall {
    /// The link.
    pub opened: OpenedLink,
    /// Its children.
    pub multicall: OpenedMulticall,
    /// Page for payers.
    pub url: String,
}

/// Reads the children of a multicall and decides which of them it can pay.
pub async fn of(ctx: &Ctx, opened: &OpenedLink) -> FlowResult<OpenedMulticall> {
    let payment = &opened.payment;
    let reader = ctx.db.reader();
    let tokens: Vec<SecurePaymentToken> = payment.items.iter().filter_map(|item| item.child.clone()).collect();
    let links = store::secure_payments::by_tokens(reader, &payment.origin.platform, &tokens).await?;
    let mut links: HashMap<SecurePaymentToken, SecurePayment> =
        links.into_iter().map(|link| (link.token.clone(), link)).collect();
    let networks: BTreeSet<Network> = opened.requests.iter().map(|request| request.terms.network).collect();
    let is_across = networks.len() > 1;
    let seen = seen_requests(ctx, reader, payment.network, &opened.requests).await?;
    let mut children = Vec::with_capacity(tokens.len());
    for ((request, item), token) in opened.requests.iter().zip(&payment.items).zip(tokens) {
        let link = links.remove(&token);
        let is_seen = seen.contains(&request.row);
        let block = match &link {
            Some(link) => block_of(link, std::slice::from_ref(request), is_seen, opened.now),
            None if request.ledger.has_been_paid() => Some(BlockReason::AlreadyPaid),
            None => Some(BlockReason::NotFound),
        };
        children.push(MulticallChild {
            token,
            block: block.or(is_across.then_some(BlockReason::NotPayableChild)),
            fee_plan: plan(ctx, opened, request, &item.charges),
            link,
            request: request.clone(),
            charges: item.charges.clone(),
        });
    }
    let paid = children.iter().filter(|child| child.request.ledger.has_been_paid());
    let status = MulticallStatus::of(paid.count(), children.len(), opened.now > payment.expires_at);
    let is_open = opened.payable().is_ok() && opened.unlocked().is_ok();
    let signs = PaymentSigns {
        is_seen: !seen.is_empty(),
        broadcast_until: None,
    };
    Ok(OpenedMulticall {
        status,
        is_in_flight: opened.in_flight_until(signs).is_some(),
        can_execute: is_open && children.iter().all(|child| child.block.is_none()),
        children,
    })
}

fn plan(ctx: &Ctx, opened: &OpenedLink, request: &Request, charges: &Charges) -> Option<FeePlan> {
    let currency = ctx.catalogue.find(&request.terms.payment_currency)?;
    let payment = (charges.gross_of(request.ledger.expected), charges.clone());
    let flow = opened.payment.flow;
    FeePlan::of(flow, flow.usual_bearer(), currency, &[payment])
}

/// Opens a multicall for a payer. A partly paid multicall stays visible after its expiry.
///
/// Errors: those of [`open::run`].
pub async fn open(ctx: &Ctx, opened: &OpenedLink, look: &LinkVisit) -> FlowResult<(OpenedMulticall, LinkView)> {
    let multicall = of(ctx, opened).await?;
    match opened.payable() {
        Err(UnpayableLink::Expired) if multicall.status == MulticallStatus::PartiallySettled => {}
        payable => payable.map_err(Refusal::from)?,
    }
    let view = open::show(ctx, opened, look, multicall.can_execute).await?;
    Ok((multicall, view))
}

/// Finds a multicall of the caller, in any state. Errors: it is unknown, of another user, or no multicall (404).
pub async fn find(ctx: &Ctx, caller: &PlatformCaller, token: &str) -> FlowResult<FoundMulticall> {
    let unknown = || Refusal::not_found("Multicall payout not found");
    let token = SecurePaymentToken(token.to_owned());
    let found = store::secure_payments::by_tokens(ctx.db.reader(), &caller.platform, &[token]).await?;
    let found = found.into_iter().next().filter(SecurePayment::is_multicall);
    let opened = with_requests(ctx, found.ok_or_else(unknown)?).await?;
    Ok(FoundMulticall {
        multicall: of(ctx, &opened).await?,
        url: url(ctx, &opened.payment),
        opened,
    })
}

impl MulticallChild {
    /// Facts about the child.
    pub fn facts(&self, opened: &OpenedLink) -> ChildFacts {
        facts_of(self.link.as_ref(), &self.request, opened.now)
    }

    /// Its requested amount in units of its currency.
    pub fn gross(&self) -> U256 {
        self.charges.gross_of(self.request.ledger.expected)
    }

    fn totals(&self, decimals: u8) -> AmountTotals {
        let charged = self.charges.of_units(self.request.ledger.expected);
        let borne_by = |bearer| {
            let own = charged.iter().filter(|charge| charge.bearer == bearer);
            own.fold(U256::ZERO, |sum, charge| sum.saturating_add(charge.units))
        };
        AmountTotals {
            gross: self.gross(),
            by_payer: borne_by(FeeBearer::Payer),
            by_payee: borne_by(FeeBearer::Payee),
            decimals,
        }
    }
}

impl OpenedMulticall {
    /// The children that it cannot pay.
    pub fn failures(&self, opened: &OpenedLink) -> Vec<ChildFailure> {
        let blocked = self.children.iter().enumerate();
        let blocked = blocked.filter_map(|(position, child)| {
            let reason = child.block?;
            Some(reason.failure(position, &child.token, Some(child.facts(opened))))
        });
        blocked.collect()
    }

    /// The sums in the currency of all children, or in dollars. `None` when there is neither.
    pub fn totals(&self, ctx: &Ctx, opened: &OpenedLink) -> Option<AmountTotals> {
        if let Some(currency) = opened.sole_currency().and_then(|sole| ctx.catalogue.find(sole)) {
            return AmountTotals::of(self.children.iter().map(|child| child.totals(currency.decimals)));
        }
        let plans: Option<Vec<&FeePlan>> = self.children.iter().map(|child| child.fee_plan.as_ref()).collect();
        AmountTotals::of(plans?.into_iter().map(FeePlan::totals))
    }
}
