//! The payments of one transaction: payee and amount for each request, with and without a rate.

use super::{
    handout::{HandedPayment, HandoutError, PaymentDue},
    lookup::{Lookup, ONE},
};
use crate::{
    ctx::Ctx,
    domain::{
        conversion::RateBounds,
        currency::Currency,
        network::Network,
        pair::Pair,
        paying::{BundleError, Conversion, Leg, charge::Charges, contracts::PaymentContracts},
        quote::Quote,
        rates::AppliedRate,
        refusal::{Refusal, RefusalKind},
        request::{Request, payable::UnpayableRequest, terms::Exchange},
    },
    flows::{Fault, FlowError, FlowResult, rates},
};
use alloy::primitives::{Address as EvmAddress, U256};
use anyhow::anyhow;
use futures_util::{StreamExt, TryStreamExt, stream};
use std::collections::HashMap;

/// If a payment with its fees converts to at most this number of units of the payment currency, its amount alone may
/// convert to zero units, because amount and fee are rounded down. With more units the amount converts to at least one
/// unit, because a fee is at most as large as its amount.
const DUST_MAX: U256 = U256::from_limbs([3, 0, 0, 0]);

/// Concurrent rate queries.
const IN_FLIGHT: usize = 16;

/// The currencies of a request.
pub(in crate::flows) struct RequestCurrencies<'a> {
    /// Currency of the amount.
    pub(in crate::flows) invoice: &'a Currency,
    /// Currency of the payment.
    pub(in crate::flows) payment: &'a Currency,
}

/// Finds the currencies of a request. Errors: a currency was removed from the catalogue (500).
pub(in crate::flows) fn currencies<'a>(ctx: &'a Ctx, request: &Request) -> FlowResult<RequestCurrencies<'a>> {
    let find = |id: &str| {
        ctx.catalogue
            .find(id)
            .ok_or_else(|| FlowError::Faulted(Fault(anyhow!("currency {id} is no longer in the catalogue"))))
    };
    Ok(RequestCurrencies {
        invoice: find(&request.terms.invoice_currency)?,
        payment: find(&request.terms.payment_currency)?,
    })
}

/// The payment contracts of a network.
pub(super) fn payment_contracts(ctx: &Ctx, network: Network) -> PaymentContracts<'_> {
    let catalogue = &ctx.catalogue;
    PaymentContracts { network, catalogue }
}

/// The payment of `units` and their charges, without a rate. It suffices to estimate the gas, but lacks the spending
/// limit of a conversion.
///
/// Errors: no contract can pay the request, or a sum exceeds 256 bits (400).
fn outline(ctx: &Ctx, request: &Request, units: U256, charges: &Charges) -> FlowResult<Leg> {
    let terms = &request.terms;
    let for_bank = || Refusal::invalid(UnpayableRequest::ForBankAccount.alone());
    let conversion = match terms.exchange() {
        Exchange::Direct | Exchange::Quoted => None,
        Exchange::OnChain => {
            let unpriced = || Fault(anyhow!("request {} has no path for its conversion", request.id));
            let rates = terms.price.rates.clone().ok_or_else(unpriced)?;
            Some(Conversion {
                path: rates.path,
                max_to_spend: U256::ZERO,
                max_rate_timespan_s: rates.max_age_s,
            })
        }
    };
    let leg = Leg {
        payee: terms.payee.ok_or_else(for_bank)?,
        token: terms.token,
        resets_allowance: currencies(ctx, request)?.payment.resets_allowance(),
        units,
        reference: request.reference,
        charges: charges.after(request.ledger.orchestrator_fees).of_units(units),
        conversion,
    };
    payment_contracts(ctx, terms.network)
        .fee_proxy(&leg)
        .map_err(Refusal::from)?;
    leg.total().ok_or_else(too_large)?;
    Ok(leg)
}

/// The due payments without rates. Errors: the error of one payment, with its position.
pub(super) fn outlined<'a>(
    ctx: &Ctx,
    due: impl Iterator<Item = (&'a Request, U256, &'a Charges)>,
) -> Result<Vec<Leg>, HandoutError> {
    let legs = due.enumerate().map(|(place, (request, units, charges))| {
        outline(ctx, request, units, charges).map_err(|error| HandoutError::Payment(place, error))
    });
    legs.collect()
}

/// The due payments with their rates. Only an on-chain conversion queries a node.
///
/// Errors: no contract can pay a request (400), no node responds, or no accepted rate (502).
pub(super) async fn priced(
    ctx: &Ctx,
    lookup: &Lookup,
    due: Vec<PaymentDue>,
) -> Result<(Vec<Leg>, Vec<HandedPayment>), HandoutError> {
    let rates = &rates(ctx, &due).await?;
    let priced = due.into_iter().enumerate().map(|(place, due)| async move {
        let payment = price(ctx, lookup, due, rates).await;
        payment.map_err(|error| HandoutError::Payment(place, error))
    });
    let priced: Vec<_> = priced.collect();
    let priced: Vec<_> = stream::iter(priced).buffered(IN_FLIGHT).try_collect().await?;
    Ok(priced.into_iter().unzip())
}

/// The due payment of a single request with its rate. Errors: as for [`priced`].
pub(in crate::flows) async fn priced_alone(
    ctx: &Ctx,
    lookup: &Lookup,
    due: PaymentDue,
) -> FlowResult<(Leg, HandedPayment)> {
    let rates = rates(ctx, std::slice::from_ref(&due))
        .await
        .map_err(HandoutError::alone)?;
    price(ctx, lookup, due, &rates).await
}

/// The rate of each currency pair that the due payments need for quotes, except rates that are already fixed. Errors:
/// no accepted rate (502).
async fn rates(ctx: &Ctx, due: &[PaymentDue]) -> Result<HashMap<Pair, AppliedRate>, HandoutError> {
    let mut applied = HashMap::new();
    for (place, due) in due.iter().enumerate().filter(|(_, due)| due.rate.is_none()) {
        let current = async {
            if let Some(pair) = quoted_pair(ctx, &due.request)?
                && !applied.contains_key(&pair)
            {
                let current = rates::current(ctx, &pair).await?;
                applied.insert(pair, current);
            }
            FlowResult::Ok(())
        };
        current.await.map_err(|error| HandoutError::Payment(place, error))?;
    }
    Ok(applied)
}

/// The currency pair whose rate is needed to quote a request; `None` for a request that is not quoted.
fn quoted_pair(ctx: &Ctx, request: &Request) -> FlowResult<Option<Pair>> {
    Ok(request.terms.quoted_pair(currencies(ctx, request)?.payment))
}

async fn price(
    ctx: &Ctx,
    lookup: &Lookup,
    due: PaymentDue,
    rates: &HashMap<Pair, AppliedRate>,
) -> FlowResult<(Leg, HandedPayment)> {
    let PaymentDue {
        request,
        units,
        charges,
        rate,
    } = due;
    let payment = currencies(ctx, &request)?.payment;
    let applied = match rate {
        Some(rate) => Some(rate),
        None => quoted_pair(ctx, &request)?.and_then(|pair| rates.get(&pair).copied()),
    };
    let quote = applied.map(|applied| {
        let (now, lasts) = (ctx.clock.now(), ctx.payments.quotes_last);
        Quote::of(units, payment.decimals, applied, now, lasts).ok_or_else(too_large)
    });
    let quote = quote.transpose()?;
    let units = quote.map_or(units, |quote| quote.units);
    let mut leg = outline(ctx, &request, units, &charges)?;
    if let Some(Conversion { path, .. }) = leg.conversion.clone() {
        let mut converted = lookup.convert(&path, leg.total().ok_or_else(too_large)?).await?.units;
        if converted <= DUST_MAX {
            let least = least_units(ctx, lookup, &path, payment).await?;
            if units < least {
                leg = outline(ctx, &request, least, &charges)?;
                converted = lookup.convert(&path, leg.total().ok_or_else(too_large)?).await?.units;
            }
        }
        let max_to_spend = with_margin(ctx, converted).ok_or_else(too_large)?;
        leg.conversion = leg.conversion.map(|conversion| Conversion {
            max_to_spend,
            ..conversion
        });
    }
    let handed = HandedPayment {
        decimals: payment.decimals,
        request,
        charges,
        quote,
    };
    Ok((leg, handed))
}

fn too_large() -> Refusal {
    BundleError::TooLarge.into()
}

/// Converts invoice units to units of the payment currency, for payments of a fixed token amount. No contract checks
/// the age of the rates in such a payment, so it is checked here.
///
/// Errors: the rates are too old for a payment (502).
pub(in crate::flows) async fn convert_recent(
    ctx: &Ctx,
    lookup: &Lookup,
    rates: &RateBounds,
    units: U256,
) -> FlowResult<U256> {
    let converted = lookup.convert(&rates.path, units).await?;
    let now_s = U256::from(ctx.clock.now().timestamp().cast_unsigned());
    if !rates.admit(converted.oldest_rate_at_s, now_s) {
        let network = lookup.network();
        let sentence = format!("The price feeds of {network} currently have no recent price; retry later");
        return Err(Refusal::new(RefusalKind::Upstream, sentence).into());
    }
    Ok(converted.units)
}

/// Adds the margin for rate changes until the payment is mined; `None` beyond 256 bits.
fn with_margin(ctx: &Ctx, units: U256) -> Option<U256> {
    let scaled = units.checked_mul(U256::from(ctx.payments.conversion_slippage_basis_points))?;
    units.checked_add(scaled / U256::from(10_000))
}

/// The smallest number of invoice units that converts to one unit of the payment currency, even when the price of the
/// payment currency rises by the margin.
///
/// A smaller remaining amount could never be settled, because the contract would transfer nothing.
async fn least_units(ctx: &Ctx, lookup: &Lookup, path: &[EvmAddress], payment: &Currency) -> FlowResult<U256> {
    let rate = lookup.convert(path, ONE).await?.units;
    let least = ONE
        .checked_add(rate)
        .map(|sum| sum - U256::ONE)
        .and_then(|sum| sum.checked_div(rate));
    let least = least.and_then(|least| with_margin(ctx, least)?.checked_add(U256::ONE));
    Ok(least.ok_or_else(|| {
        Refusal::invalid(format!(
            "The remaining amount is worth less than the smallest unit of {}",
            payment.symbol
        ))
    })?)
}
