//! The payments of a bundle: what is paid to whom for a request, as far as it is known without a rate, and with one.

use super::{
    handout::{HandedPayment, HandoutError, PaymentDue},
    lookup::{Lookup, ONE},
};
use crate::{
    ctx::Ctx,
    domain::{
        address::Address,
        conversion::RateBounds,
        currency::Currency,
        network::Network,
        pair::Pair,
        paying::{BundleError, Conversion, Leg, charge::Charges, fee_proxy::FeeProxy},
        quote::Quote,
        rates::AppliedRate,
        refusal::{Refusal, RefusalKind},
        request::{Request, payable::Unpayable, terms::Exchange},
    },
    flows::{Fault, FlowError, FlowResult, rates},
};
use alloy::primitives::{Address as EvmAddress, U256};
use anyhow::anyhow;
use futures_util::{StreamExt, TryStreamExt, stream};
use std::collections::HashMap;

/// Units of the payment currency up to which the amount without its fee may convert to nothing: a fee is at most as
/// large as its amount, and each of the two is rounded down.
const DUST_MAX: U256 = U256::from_limbs([3, 0, 0, 0]);

/// Questions about rates that are in flight at the same time.
const IN_FLIGHT: usize = 16;

/// The currencies of a request.
pub(in crate::flows) struct Currencies<'a> {
    /// Of the amount.
    pub(in crate::flows) invoice: &'a Currency,
    /// Of the payment.
    pub(in crate::flows) payment: &'a Currency,
}

/// Finds the currencies of a request. Errors: one left the catalogue (500).
pub(in crate::flows) fn currencies<'a>(ctx: &'a Ctx, request: &Request) -> FlowResult<Currencies<'a>> {
    let find = |id: &str| {
        ctx.catalogue
            .find(id)
            .ok_or_else(|| FlowError::Faulted(Fault(anyhow!("currency {id} left the catalogue"))))
    };
    Ok(Currencies {
        invoice: find(&request.terms.invoice_currency)?,
        payment: find(&request.terms.payment_currency)?,
    })
}

/// The contract that makes a payment alone. Errors: its network has none (400).
pub(super) fn fee_proxy(ctx: &Ctx, network: Network, leg: &Leg) -> FlowResult<Address> {
    let kind = FeeProxy::kind(leg.token.is_some(), leg.conversion.is_some());
    let known = ctx.catalogue.default_contract(network, kind);
    let missing = || Refusal::invalid(format!("{network} has no contract for this kind of payment"));
    Ok(known.ok_or_else(missing)?)
}

/// The leg that pays `units` and their charges, as far as it is known without a rate: enough to estimate its gas. The
/// limit of a conversion is missing.
///
/// Errors: nothing pays the request, or a sum leaves 256 bits (400).
fn outline(ctx: &Ctx, request: &Request, units: U256, charges: &Charges) -> FlowResult<Leg> {
    let terms = &request.terms;
    let for_bank = || Refusal::invalid(Unpayable::ForBankAccount.alone());
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
        charges: charges.of_units(units),
        conversion,
    };
    fee_proxy(ctx, terms.network, &leg)?;
    leg.total().ok_or_else(too_large)?;
    Ok(leg)
}

/// The payments that are due, as far as they are known without a rate. Errors: as those of one payment, with its place.
pub(super) fn outlined<'a>(
    ctx: &Ctx,
    due: impl Iterator<Item = (&'a Request, U256, &'a Charges)>,
) -> Result<Vec<Leg>, HandoutError> {
    let legs = due.enumerate().map(|(place, (request, units, charges))| {
        outline(ctx, request, units, charges).map_err(|error| HandoutError::Payment(place, error))
    });
    legs.collect()
}

/// The payments that are due, with their rates. Only a conversion on chain asks a node.
///
/// Errors: nothing pays a request (400), no node that answers, no rate that is beyond doubt (502).
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

/// The same of one payment.
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

/// The rate of each pair that quotes need and nobody agreed on before. Errors: there is none that is beyond doubt (502).
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

/// The pair whose rate the quotes of a request need; `None` where nothing is quoted.
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

/// Converts units where the result is fixed, so that no contract looks at the age of the rates when it is paid.
///
/// Errors: the rates are older than a payment may use (502).
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
        let sentence = format!("The price feeds of {network} have no recent price at the moment; try again later");
        return Err(Refusal::new(RefusalKind::Upstream, sentence).into());
    }
    Ok(converted.units)
}

/// Adds the margin for rates that move until the payment is mined; `None` beyond 256 bits.
fn with_margin(ctx: &Ctx, units: U256) -> Option<U256> {
    let scaled = units.checked_mul(U256::from(ctx.payments.conversion_slippage_basis_points))?;
    units.checked_add(scaled / U256::from(10_000))
}

/// Invoice units that convert to one unit of the payment currency, even when its price rises by the margin.
///
/// What is left of a request may be worth less than that; the contract would then move nothing, and nothing would ever
/// settle the rest.
async fn least_units(ctx: &Ctx, lookup: &Lookup, path: &[EvmAddress], payment: &Currency) -> FlowResult<U256> {
    let rate = lookup.convert(path, ONE).await?.units;
    let least = ONE
        .checked_add(rate)
        .map(|sum| sum - U256::ONE)
        .and_then(|sum| sum.checked_div(rate));
    let least = least.and_then(|least| with_margin(ctx, least)?.checked_add(U256::ONE));
    Ok(least.ok_or_else(|| {
        Refusal::invalid(format!(
            "What is left is worth less than the smallest unit of {}",
            payment.symbol
        ))
    })?)
}
