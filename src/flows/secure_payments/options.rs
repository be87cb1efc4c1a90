//! Chains from which a wallet could pay. Anyone with a token can query any wallet, so these lookups have separate
//! permits, and their results are cached for a while.

use super::opened::OpenedLink;
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

/// How long a result is cached.
const REMEMBERED: Duration = Duration::from_secs(5);

/// Tokens that are looked up on other chains for a payment in a dollar token. Source: interface §4.7.
const SYMBOLS: [&str; 4] = ["USDC", "USDT", "USDT0", "EURC"];

/// A balance to look up, and the amount needed.
struct BalanceNeeded<'a> {
    network: Network,
    currency: &'a Currency,
    needed: U256,
}

/// Balances with which a wallet could pay, on the payment's chain and on every other chain that responds in time.
pub(super) async fn of(ctx: &Ctx, opened: &OpenedLink, wallet: Address) -> Vec<PaymentOption> {
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

/// The balances to look up: the amount due with its fees, in each currency of the link, and the same amount in dollar
/// tokens on other networks. A payment on a test network offers only test networks, and a payment on a main network
/// only main networks.
fn wanted<'a>(ctx: &'a Ctx, opened: &OpenedLink) -> Vec<BalanceNeeded<'a>> {
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

/// The dollar tokens of another network, with the amount in each.
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

/// A balance, cached or looked up; `None` if its chain does not respond in time.
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
        // Only the balance is used. The query needs a spender for the allowance, so the wallet itself is passed.
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
