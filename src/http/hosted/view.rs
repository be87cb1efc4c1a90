//! A link as its page shows it: what is hidden from a visitor is not in it.

use super::{
    link::{Currency, Details, Fee, Fund, InFlight, Item, Link, Network, Redirect, Wallet},
    look::Page,
};
use crate::{
    ctx::Ctx,
    domain::{
        address::Address,
        amount::format_units,
        currency::{ContractKind, CurrencyFilter, CurrencyKind},
        network,
        paying::charge::FeeLeg,
        secure_payment::{SecurePaymentKind, SecurePaymentStatus, access::AccessStatus},
    },
    flows::secure_payments::{open::Shown, opened::Opened},
    http::error::Problem,
};
use alloy::primitives::U256;
use chrono::{DateTime, SecondsFormat, Utc};
use std::collections::{BTreeMap, BTreeSet};
use url::Url;

/// The most that the contract of batches takes for itself, in basis points: it accepts no larger fee.
const BATCH_FEE_MAX: u64 = 200;

/// Contracts that payments of a link go through.
const PROXIES: [ContractKind; 3] = [
    ContractKind::Erc20FeeProxy,
    ContractKind::EthereumFeeProxy,
    ContractKind::BatchConversionPayments,
];

/// What is looked up of a link for whoever visits it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Surroundings {
    /// Whether its redirect leads out of the pages of its maker.
    pub(super) is_foreign: bool,
    /// Whether a payment of it is seen on the chain and not final.
    pub(super) is_seen: bool,
}

/// A link for a visitor; `shown` is what a wallet is shown of it that can still be paid.
///
/// Errors: a currency left the catalogue (500).
pub(super) fn link(
    ctx: &Ctx,
    page: &Page,
    opened: &Opened,
    shown: Option<&Shown>,
    Surroundings { is_foreign, is_seen }: Surroundings,
) -> Result<Link, Problem> {
    let payment = &opened.payment;
    let is_hidden = match shown {
        Some(shown) => shown.is_masked,
        None => payment.policy.hides_until_approved,
    };
    let details = match is_hidden {
        true => None,
        false => Some(details(ctx, opened)?),
    };
    let wallet = shown.map(|shown| wallet(payment.network, shown, details.as_ref()));
    let last = opened.requests.iter().rev().find_map(|request| request.ledger.tx_hash);
    let in_flight = match opened.status() {
        // What was begun before the end of a link may arrive after it.
        SecurePaymentStatus::Pending | SecurePaymentStatus::Expired | SecurePaymentStatus::Invalidated => {
            opened.in_flight_until(is_seen)
        }
        SecurePaymentStatus::Completed | SecurePaymentStatus::ComplianceFailed => None,
    };
    let redirect = payment.about.redirect.as_ref().filter(|_| !is_hidden);
    let redirect = redirect.and_then(|redirect| {
        Some(Redirect {
            origin: Url::parse(&redirect.url).ok()?.origin().ascii_serialization(),
            url: redirect.url.clone(),
            // Such a page chooses no words that pass for those of the merchant.
            label: redirect.label.clone().filter(|_| !is_foreign),
            is_foreign,
        })
    });
    Ok(Link {
        token: payment.token.as_str().to_owned(),
        status: opened.status().wire(),
        flow: payment.flow.wire(),
        reference: payment.about.reference.clone().filter(|_| !is_hidden),
        network: (!is_hidden).then(|| network(ctx, page, payment.network)),
        details,
        redirect,
        expires_at: iso(payment.expires_at),
        server_time: iso(opened.now),
        is_paid: opened.requests.iter().all(|request| request.ledger.has_been_paid()),
        completed_at: payment.completed_at.map(iso),
        tx_hash: last.filter(|_| !is_hidden).map(|hash| hash.to_string()),
        in_flight: in_flight.map(|until| InFlight {
            until: iso(until),
            is_seen,
        }),
        wallet,
    })
}

pub(super) fn iso(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Millis, true)
}

fn network(ctx: &Ctx, page: &Page, network: network::Network) -> Network {
    let of_network = CurrencyFilter {
        network: Some(network.id().to_owned()),
        ..CurrencyFilter::default()
    };
    let known = ctx.catalogue.list(&of_network).into_iter();
    let coin = known
        .filter(|currency| currency.kind == CurrencyKind::Native)
        .map(|currency| coin_symbol(&currency.symbol).to_owned());
    Network {
        id: network.id(),
        name: network.name(),
        chain_id: network.chain_id(),
        coin: coin.into_iter().next().unwrap_or_default(),
        explorer: network.explorer_url(""),
        rpc_url: page.nodes.get(&network).cloned(),
    }
}

/// What wallets call a coin: the catalogue tells those of test networks apart by their symbols, wallets do not.
fn coin_symbol(symbol: &str) -> &str {
    symbol.split('-').next().unwrap_or(symbol)
}

/// Sums in one currency, in its units.
#[derive(Default)]
struct Sums {
    amount: U256,
    left: U256,
    fees: BTreeMap<Address, FeeSums>,
}

/// What somebody gets on top of that.
#[derive(Default)]
struct FeeSums {
    amount: U256,
    due: U256,
}

/// A currency of a link. Errors: it left the catalogue (500).
fn catalogued<'a>(ctx: &'a Ctx, id: &str) -> Result<&'a crate::domain::currency::Currency, Problem> {
    ctx.catalogue.find(id).ok_or_else(|| {
        tracing::error!(currency = id, "a currency left the catalogue");
        Problem::internal()
    })
}

fn details(ctx: &Ctx, opened: &Opened) -> Result<Details, Problem> {
    let payment = &opened.payment;
    let mut ids: Vec<&str> = Vec::new();
    let mut sums: Vec<Sums> = Vec::new();
    let mut items = Vec::with_capacity(opened.requests.len());
    let (mut receivers, mut receivers_left) = (BTreeSet::new(), BTreeSet::new());
    let mut uses_batch = payment.kind() == SecurePaymentKind::Batch;
    for (request, charges) in opened.due() {
        let id = request.terms.payment_currency.as_str();
        let known = catalogued(ctx, id)?;
        let position = ids.iter().position(|other| *other == id).unwrap_or_else(|| {
            ids.push(id);
            sums.push(Sums::default());
            ids.len() - 1
        });
        let expected = request.ledger.expected;
        let left = match request.payable() {
            Ok(()) => request.ledger.remaining(),
            Err(_) => U256::ZERO,
        };
        let (whole, rest) = (charges.legs(expected), charges.legs(left));
        uses_batch |= rest.len() > 1;
        if let Some(sum) = sums.get_mut(position) {
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
        // A link always names whom it pays.
        let wallet = request.terms.payee.ok_or_else(Problem::internal)?;
        receivers.insert(wallet);
        if !left.is_zero() {
            receivers_left.insert(wallet);
        }
        let reference = request.terms.merchant_reference.clone();
        items.push(Item {
            reference: reference.filter(|own| payment.about.reference.as_ref() != Some(own)),
            is_paid: request.ledger.has_been_paid(),
            payee: payee(wallet, payment.policy.hides_payee),
            currency: position,
            amount: format_units(expected, known.decimals),
            due: format_units(left, known.decimals),
            payment_reference: hex::encode_prefixed(request.reference.0),
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
        items,
        currencies: currencies.collect::<Result<_, Problem>>()?,
        contracts: contracts.map(|contract| contract.to_string()).collect(),
    })
}

fn currency(opened: &Opened, known: &crate::domain::currency::Currency, sums: &Sums, uses_batch: bool) -> Currency {
    let text = |units: U256| format_units(units, known.decimals);
    let of = |part: fn(&FeeSums) -> U256| sums.fees.values().map(part).fold(U256::ZERO, U256::saturating_add);
    let (fee, due) = (of(|fee| fee.amount), sums.left.saturating_add(of(|fee| fee.due)));
    let own = match uses_batch {
        true => due.saturating_mul(U256::from(BATCH_FEE_MAX)) / U256::from(10_000),
        false => U256::ZERO,
    };
    Currency {
        symbol: match known.kind {
            CurrencyKind::Native => coin_symbol(&known.symbol).to_owned(),
            _ => known.symbol.clone(),
        },
        decimals: known.decimals,
        address: known.token().map(|token| token.to_string()),
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
            .map(|(receiver, fee)| Fee {
                receiver: fee_receiver(opened, *receiver),
                amount: text(fee.amount),
                due: text(fee.due),
            })
            .collect(),
    }
}

/// A receiver of fees, hidden like the payees where it is one of them.
pub(super) fn fee_receiver(opened: &Opened, receiver: Address) -> String {
    let mut payees = opened.requests.iter().filter_map(|request| request.terms.payee);
    let is_payee = opened.payment.policy.hides_payee && payees.any(|payee| payee == receiver);
    payee(receiver, is_payee)
}

/// A receiver, without its middle where the payer may not see it.
fn payee(address: Address, is_masked: bool) -> String {
    let text = address.to_string();
    let end = text.len().saturating_sub(4);
    match (is_masked, text.get(..6), text.get(end..)) {
        (false, ..) => text,
        (true, Some(start), Some(end)) => format!("{start}…{end}"),
        (true, ..) => String::new(),
    }
}

fn wallet(network: network::Network, shown: &Shown, details: Option<&Details>) -> Wallet {
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
        // Nothing at all is what is known of a chain that does not answer.
        funds: funds.filter(|funds| !funds.is_empty()),
    }
}
