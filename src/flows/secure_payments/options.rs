//! From which chains a wallet could pay. Whoever has a token may ask for any wallet, so questions have permits of their
//! own, and their answers are remembered for a while.

use super::opened::Opened;
use crate::{
    ctx::{Ctx, PermitHolder},
    domain::{
        address::Address,
        amount::Amount,
        currency::{Currency, CurrencyFilter},
        network::{Family, Network},
        secure_payment::options::PaymentOption,
    },
    flows::admission::admit,
};
use alloy::primitives::U256;
use futures_util::future::join_all;
use std::{collections::BTreeMap, sync::PoisonError, time::Duration};
use tokio::time::timeout;

/// How long an answer is remembered.
const REMEMBERED: Duration = Duration::from_secs(5);

/// Tokens of other chains that are looked for where a payment is in a dollar token. Source: interface §4.7.
const SYMBOLS: [&str; 4] = ["USDC", "USDT", "USDT0", "EURC"];

/// A balance to look for, and what of it is needed.
struct BalanceNeeded<'a> {
    network: Network,
    currency: &'a Currency,
    needed: U256,
}

/// What a wallet holds of what could pay, on the payment's own chain and on every other one that answers in time.
pub(super) async fn of(ctx: &Ctx, opened: &Opened, wallet: Address) -> Vec<PaymentOption> {
    let holder = &PermitHolder {
        platform: opened.payment.origin.platform.clone(),
        is_public: true,
        link: Some(opened.payment.id.clone()),
    };
    let wanted = wanted(ctx, opened);
    let wanted = wanted.into_iter().filter(|one| one.network.family() == wallet.family());
    let asked = wanted.map(|one| async move {
        let balance = balance(ctx, holder, &one, wallet).await?;
        let BalanceNeeded {
            network,
            currency,
            needed,
        } = one;
        Some(PaymentOption {
            network,
            token: currency.symbol.clone(),
            decimals: currency.decimals,
            balance,
            needed,
        })
    });
    join_all(asked).await.into_iter().flatten().collect()
}

/// What is left to be paid with its fees, in each of its currencies; and the same in dollar tokens elsewhere. No balance of
/// a test network pays anything on another network, and none there is paid with money.
fn wanted<'a>(ctx: &'a Ctx, opened: &Opened) -> Vec<BalanceNeeded<'a>> {
    let network = opened.payment.network;
    let mut needed: BTreeMap<&str, U256> = BTreeMap::new();
    for (request, charges, units) in opened.unpaid() {
        let with_charges = charges.with(units);
        let sum = needed.entry(request.terms.payment_currency.as_str()).or_default();
        *sum = sum.saturating_add(with_charges.unwrap_or(U256::MAX));
    }
    let own: Vec<BalanceNeeded<'a>> = needed
        .iter()
        .filter_map(|(id, needed)| {
            Some(BalanceNeeded {
                network,
                currency: ctx.catalogue.find(id)?,
                needed: *needed,
            })
        })
        .collect();
    let dollars = match own.as_slice() {
        [sole] if sole.currency.is_dollar() => Amount::of_units(sole.needed, sole.currency.decimals),
        _ => None,
    };
    let elsewhere = dollars.into_iter().flat_map(|dollars| {
        let others = ctx.catalogue.enabled().filter(move |other| *other != network);
        let networks = others.filter(move |other| other.is_test() == network.is_test());
        networks.flat_map(move |other| elsewhere(ctx, other, &dollars))
    });
    let elsewhere: Vec<BalanceNeeded<'a>> = elsewhere.collect();
    own.into_iter().chain(elsewhere).collect()
}

/// The tokens of another network in which so many dollars could be held.
fn elsewhere<'a>(ctx: &'a Ctx, network: Network, dollars: &Amount) -> Vec<BalanceNeeded<'a>> {
    if network.family() != Family::Evm {
        return Vec::new();
    }
    let of_network = CurrencyFilter {
        network: Some(network.id().to_owned()),
        ..CurrencyFilter::default()
    };
    let tokens = ctx.catalogue.list(&of_network).into_iter();
    let tokens = tokens.filter(|currency| currency.is_dollar() && SYMBOLS.contains(&currency.symbol.as_str()));
    tokens
        .filter_map(|currency| {
            Some(BalanceNeeded {
                network,
                currency,
                needed: dollars.to_units(currency.decimals).ok()?,
            })
        })
        .collect()
}

/// A balance, remembered or asked for; `None` when its chain does not answer in time.
async fn balance(ctx: &Ctx, holder: &PermitHolder, wanted: &BalanceNeeded<'_>, wallet: Address) -> Option<U256> {
    let (pages, network) = (&ctx.payment_pages, wanted.network);
    let key = (network, wanted.currency.token(), wallet);
    let now = ctx.clock.steady();
    let known = pages
        .balances
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .get(&key)
        .copied();
    if let Some((_, balance)) = known.filter(|(at, _)| now.saturating_sub(*at) < REMEMBERED) {
        return Some(balance);
    }
    let standings = ctx.partners.chains.standings.get(&network)?;
    let asked = async {
        let _permit = admit(&pages.permits, holder, ctx.waits.balance).await?;
        // What is allowed is of no interest here, so nobody in particular is named.
        standings.standing(wallet, key.1, wallet).await.ok()
    };
    let balance = timeout(ctx.waits.balance, asked).await.ok()??.balance;
    let now = ctx.clock.steady();
    pages
        .balances
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .put(key, (now, balance));
    Some(balance)
}
