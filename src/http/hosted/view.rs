//! Builds the view model of a link. It contains nothing that is hidden from the visitor.

use super::{
    link::{
        Details, Fund, InFlight, LinkCurrency, LinkFee, LinkItem, LinkLock, LinkNetwork, LinkRedirect, VisitedLink,
        Wallet,
    },
    look::PageFrame,
};
use crate::{
    ctx::Ctx,
    domain::{
        address::Address,
        amount::format_units,
        currency::{ContractKind, CurrencyKind},
        network::{self, Family},
        paying::charge::FeeLeg,
        secure_payment::{
            PaymentSigns, SecurePaymentKind, SecurePaymentStatus, access::AccessStatus, multicall::BlockReason,
        },
    },
    flows::secure_payments::{
        multicall::{MulticallChild, OpenedMulticall},
        open::LinkView,
        opened::OpenedLink,
    },
    http::error::Problem,
};
use alloy::primitives::U256;
use chrono::{DateTime, SecondsFormat, Utc};
use std::collections::{BTreeMap, BTreeSet};
use url::Url;

/// Maximum fee of the batch contract in basis points; the contract accepts no larger one.
const BATCH_FEE_MAX: u64 = 200;

/// Contracts that payments of a link use.
const PROXIES: [ContractKind; 3] = [
    ContractKind::Erc20FeeProxy,
    ContractKind::EthereumFeeProxy,
    ContractKind::BatchConversionPayments,
];

/// Facts about a link that are looked up for each visit.
#[derive(Debug, Clone)]
pub(super) struct LinkFacts {
    /// Whether the redirect of the link leads outside the domains of its creator.
    pub(super) is_foreign: bool,
    /// Signs that a payment of the link is in flight.
    pub(super) signs: PaymentSigns,
    /// Time of a final block up to which all payments of the link are credited, if the page has to know it.
    pub(super) credited_until: Option<DateTime<Utc>>,
    /// The links that a multicall pays; `None` for other links.
    pub(super) multicall: Option<OpenedMulticall>,
}

/// A link for a visitor; `shown` is what the visitor's wallet may see, if the link can still be paid.
///
/// Errors: a currency is no longer in the catalogue (500).
pub(super) fn link(
    ctx: &Ctx,
    page: &PageFrame,
    opened: &OpenedLink,
    shown: Option<&LinkView>,
    facts: LinkFacts,
) -> Result<VisitedLink, Problem> {
    let LinkFacts {
        is_foreign,
        signs,
        credited_until,
        multicall,
    } = facts;
    let payment = &opened.payment;
    let is_hidden = match shown {
        Some(shown) => shown.is_masked,
        None => payment.policy.hides_until_approved,
    };
    let details = if is_hidden {
        None
    } else {
        Some(details(ctx, opened, multicall.as_ref())?)
    };
    let wallet = shown.map(|shown| wallet(payment.network, shown, details.as_ref()));
    let mut hashes = opened.requests.iter().map(|request| request.ledger.tx_hash);
    let tx_hash = if multicall.is_some() {
        // Different payers may have paid the items, each in a transaction of its own.
        let first = hashes.next().flatten();
        first.filter(|first| hashes.all(|hash| hash.as_ref() == Some(first)))
    } else {
        hashes.flatten().next_back()
    };
    let in_flight = match opened.status() {
        // A payment started before the link ended may arrive afterwards.
        SecurePaymentStatus::Pending | SecurePaymentStatus::Expired | SecurePaymentStatus::Invalidated => {
            opened.in_flight_until(signs)
        }
        SecurePaymentStatus::Completed | SecurePaymentStatus::ComplianceFailed => None,
    };
    let redirect = payment.about.redirect.as_ref().filter(|_| !is_hidden);
    let redirect = redirect.and_then(|redirect| {
        Some(LinkRedirect {
            origin: Url::parse(&redirect.url).ok()?.origin().ascii_serialization(),
            url: redirect.url.clone(),
            // A page of another site must not choose a label that looks like the merchant's.
            label: redirect.label.clone().filter(|_| !is_foreign),
            is_foreign,
        })
    });
    Ok(VisitedLink {
        token: payment.token.as_str().to_owned(),
        status: opened.status().wire(),
        flow: payment.flow.wire(),
        reference: payment.about.reference.clone().filter(|_| !is_hidden),
        network: (!is_hidden).then(|| network(ctx, page, payment.network)),
        is_tron: payment.network.family() == Family::Tron,
        details,
        redirect,
        expires_at: iso(payment.expires_at),
        server_time: iso(opened.now),
        is_paid: opened.requests.iter().all(|request| request.ledger.has_been_paid()),
        completed_at: payment.completed_at.map(iso),
        tx_hash: tx_hash.filter(|_| !is_hidden).map(|hash| hash.to_string()),
        solid_time: credited_until.map(iso),
        in_flight: in_flight.map(|until| InFlight {
            until: iso(until),
            is_seen: signs.is_seen,
        }),
        locked: payment.locked_at(opened.now).map(|lock| LinkLock {
            until: iso(lock.until),
            safe: lock.safe.filter(|_| !is_hidden).map(|safe| safe.to_string()),
        }),
        wallet,
    })
}

pub(super) fn iso(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Millis, true)
}

fn network(ctx: &Ctx, page: &PageFrame, network: network::Network) -> LinkNetwork {
    let coin = ctx
        .catalogue
        .coin_of(network)
        .filter(|_| ctx.catalogue.is_enabled(network));
    LinkNetwork {
        id: network.id(),
        name: network.name(),
        chain_id: network.chain_id(),
        coin: coin.map_or_else(String::new, |coin| coin_symbol(&coin.symbol).to_owned()),
        explorer: network.explorer_url(""),
        rpc_url: page.nodes.get(&network).cloned(),
    }
}

/// The coin symbol that wallets use: the catalogue adds a suffix to coins of test networks, wallets do not.
fn coin_symbol(symbol: &str) -> &str {
    symbol.split('-').next().unwrap_or(symbol)
}

/// Sums in one currency, in its smallest unit.
#[derive(Default)]
struct CurrencySums {
    gross: U256,
    amount: U256,
    left: U256,
    fees: BTreeMap<Address, FeeSums>,
}

/// Fees of one receiver on top of the amount.
#[derive(Default)]
struct FeeSums {
    amount: U256,
    due: U256,
}

/// A currency of a link. Errors: the currency is no longer in the catalogue (500).
fn catalogued<'a>(ctx: &'a Ctx, id: &str) -> Result<&'a crate::domain::currency::Currency, Problem> {
    ctx.catalogue.find(id).ok_or_else(|| {
        tracing::error!(
            currency = id,
            "a currency is no longer in the catalogue; its links return 500"
        );
        Problem::internal()
    })
}

/// State of a link that a multicall pays, as the page names it. `is_open` says whether the multicall can still be paid.
fn child_state(child: &MulticallChild, is_open: bool) -> &'static str {
    match child.block {
        _ if child.request.ledger.has_been_paid() => "paid",
        None if is_open => "ready",
        None => "unpaid",
        Some(BlockReason::AlreadyPaid) => "paid",
        Some(BlockReason::RequestProcessing) => "in_progress",
        Some(BlockReason::SecurePaymentExpired) => "expired",
        Some(BlockReason::SecurePaymentNotPending) => "withdrawn",
        Some(_) => "unpayable",
    }
}

fn details(ctx: &Ctx, opened: &OpenedLink, multicall: Option<&OpenedMulticall>) -> Result<Details, Problem> {
    let payment = &opened.payment;
    let mut ids: Vec<&str> = Vec::new();
    let mut sums: Vec<CurrencySums> = Vec::new();
    let mut items = Vec::with_capacity(opened.requests.len());
    let (mut receivers, mut receivers_left) = (BTreeSet::new(), BTreeSet::new());
    let is_open = opened.payable().is_ok();
    let mut uses_batch = payment.kind() == SecurePaymentKind::Batch;
    let mut children = multicall.into_iter().flat_map(|multicall| &multicall.children);
    for (request, charges) in opened.due() {
        let id = request.terms.payment_currency.as_str();
        let known = catalogued(ctx, id)?;
        let position = ids.iter().position(|other| *other == id).unwrap_or_else(|| {
            ids.push(id);
            sums.push(CurrencySums::default());
            ids.len() - 1
        });
        let expected = request.ledger.expected;
        let left = match request.payable() {
            Ok(()) => request.ledger.remaining(),
            Err(_) => U256::ZERO,
        };
        let rest = charges.after(request.ledger.orchestrator_fees).legs(left);
        let whole = charges.legs(expected);
        uses_batch |= rest.len() > 1;
        if let Some(sum) = sums.get_mut(position) {
            sum.gross = sum.gross.saturating_add(charges.gross_of(expected));
            sum.amount = sum.amount.saturating_add(expected);
            sum.left = sum.left.saturating_add(left);
            for FeeLeg { receiver, units } in whole {
                let own = &mut sum.fees.entry(receiver).or_default().amount;
                *own = own.saturating_add(units);
            }
            for FeeLeg { receiver, units } in rest {
                let own = &mut sum.fees.entry(receiver).or_default().due;
                *own = own.saturating_add(units);
            }
        }
        // Every request of a link has a payee; a request without one is a fault (500).
        let wallet = request.terms.payee.ok_or_else(Problem::internal)?;
        receivers.insert(wallet);
        if !left.is_zero() {
            receivers_left.insert(wallet);
        }
        let reference = request.terms.merchant_reference.clone();
        let network = request.terms.network;
        items.push(LinkItem {
            reference: reference.filter(|own| payment.about.reference.as_ref() != Some(own)),
            is_paid: request.ledger.has_been_paid(),
            payee: payee(wallet, payment.policy.hides_payee),
            currency: position,
            amount: format_units(expected, known.decimals),
            due: format_units(left, known.decimals),
            payment_reference: hex::encode_prefixed(request.reference.0),
            network: (network != payment.network).then(|| network.name()),
            state: children.next().map(|child| child_state(child, is_open)),
            tx_hash: multicall.and(request.ledger.tx_hash).map(|hash| hash.to_string()),
        });
    }
    let currencies = ids.into_iter().zip(&sums).map(|(id, sums)| {
        let known = catalogued(ctx, id)?;
        Ok(currency(opened, known, sums, uses_batch))
    });
    let contracts = PROXIES
        .iter()
        .filter_map(|kind| ctx.catalogue.default_contract(payment.network, *kind));
    Ok(Details {
        count: items.len(),
        receivers: receivers.len(),
        receivers_left: receivers_left.len(),
        blocked: items.iter().filter(|item| item.is_blocked()).count(),
        is_multicall: multicall.is_some(),
        items,
        currencies: currencies.collect::<Result<_, Problem>>()?,
        contracts: contracts.map(|contract| contract.to_string()).collect(),
    })
}

fn currency(
    opened: &OpenedLink,
    known: &crate::domain::currency::Currency,
    sums: &CurrencySums,
    uses_batch: bool,
) -> LinkCurrency {
    let text = |units: U256| format_units(units, known.decimals);
    let of = |part: fn(&FeeSums) -> U256| sums.fees.values().map(part).fold(U256::ZERO, U256::saturating_add);
    let (fee, due) = (of(|fee| fee.amount), sums.left.saturating_add(of(|fee| fee.due)));
    let own = if uses_batch {
        due.saturating_mul(U256::from(BATCH_FEE_MAX)) / U256::from(10_000)
    } else {
        U256::ZERO
    };
    LinkCurrency {
        symbol: match known.kind {
            CurrencyKind::Native => coin_symbol(&known.symbol).to_owned(),
            _ => known.symbol.clone(),
        },
        decimals: known.decimals,
        address: known.token().map(|token| token.to_string()),
        gross: (sums.gross != sums.amount).then(|| text(sums.gross)),
        amount: text(sums.amount),
        fee: text(fee),
        total: text(sums.amount.saturating_add(fee)),
        paid: text(sums.amount.saturating_sub(sums.left)),
        left: text(sums.left),
        due: text(due),
        most: text(due.saturating_add(own)),
        fees: sums
            .fees
            .iter()
            .map(|(receiver, fee)| LinkFee {
                receiver: fee_receiver(opened, *receiver),
                amount: text(fee.amount),
                due: text(fee.due),
            })
            .collect(),
    }
}

/// A fee receiver, masked like the payees if it is one of them.
pub(super) fn fee_receiver(opened: &OpenedLink, receiver: Address) -> String {
    let mut payees = opened.requests.iter().filter_map(|request| request.terms.payee);
    let is_payee = opened.payment.policy.hides_payee && payees.any(|payee| payee == receiver);
    payee(receiver, is_payee)
}

/// A recipient address, its middle masked if the payer may not see it.
fn payee(address: Address, is_masked: bool) -> String {
    let text = address.to_string();
    let end = text.len().saturating_sub(4);
    match (is_masked, text.get(..6), text.get(end..)) {
        (false, ..) => text,
        (true, Some(start), Some(end)) => format!("{start}…{end}"),
        (true, ..) => String::new(),
    }
}

fn wallet(network: network::Network, shown: &LinkView, details: Option<&Details>) -> Wallet {
    let decision = shown.access.as_ref();
    let funds = shown.options.as_ref().zip(details).map(|(options, details)| {
        let held = options.iter().filter(|option| option.network == network);
        let funds = held.filter_map(|option| {
            let currency = details.currencies.iter().position(|currency| match currency.address {
                Some(_) => currency.symbol == option.token,
                None => currency.symbol == coin_symbol(&option.token),
            })?;
            let missing = option.missing();
            Some(Fund {
                currency,
                balance: format_units(option.balance, option.decimals),
                missing: (!missing.is_zero()).then(|| format_units(missing, option.decimals)),
            })
        });
        funds.collect::<Vec<_>>()
    });
    Wallet {
        decision: decision
            .map_or(AccessStatus::Approved, |decision| decision.status)
            .wire(),
        reason: decision.map_or_else(String::new, |decision| decision.reason.clone()),
        // An empty list means that the chain does not respond.
        funds: funds.filter(|funds| !funds.is_empty()),
    }
}
