//! From which chains a wallet could pay. Whoever has a token may ask for any wallet, so questions have permits and a
//! breaker of their own, and their answers are remembered for a while.

use super::opened::Opened;
use crate::{
    ctx::{Ctx, PermitHolder},
    domain::{
        address::Address,
        amount::Amount,
        currency::{Currency, CurrencyFilter},
        network::{Family, Network},
        secure_payment::{intent::PaymentChain, options::PaymentOption},
    },
    flows::admission::admit,
};
use alloy::primitives::U256;
use futures_util::future::join_all;
use std::{collections::BTreeMap, sync::PoisonError, time::Duration};
use tokio::time::{Instant, timeout_at};

/// Time in which a chain has to answer, with the wait for a permit; one that does not is left out.
const PATIENCE: Duration = Duration::from_secs(2);

/// Time that a question has at least before a chain counts as silent.
const QUESTION: Duration = Duration::from_millis(1_500);

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
            chain: PaymentChain::of(network)?,
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

/// A balance, remembered or asked for; `None` when its chain does not answer in time or is left alone for a while.
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
    let rest = pages
        .rests
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .get(&network)
        .copied();
    if rest.is_some_and(|rest| !rest.is_over(now)) {
        return None;
    }
    let standings = ctx.partners.chains.standings.get(&network)?;
    let end = Instant::now() + PATIENCE;
    let permit = admit(&pages.permits, holder, PATIENCE).await?;
    let silent = Instant::now() + QUESTION;
    // What is allowed is of no interest here, so nobody in particular is named.
    let answer = match timeout_at(silent.min(end), standings.standing(wallet, key.1, wallet)).await {
        Ok(answer) => answer.ok(),
        // Who waited long for a permit had no time for the chain, which says nothing about it.
        Err(_) if end < silent => return None,
        Err(_) => None,
    };
    drop(permit);
    let now = ctx.clock.steady();
    {
        let mut rests = pages.rests.lock().unwrap_or_else(PoisonError::into_inner);
        let rest = rests.entry(network).or_default();
        *rest = rest.after(answer.is_some(), now);
    }
    let balance = answer?.balance;
    pages
        .balances
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .put(key, (now, balance));
    Some(balance)
}
