//! Plans the calldata of a request: what every operation does that hands some out.

use super::{
    batch_terms::batch_terms,
    payers::{in_time, payers},
};
use crate::{
    ctx::Ctx,
    domain::{
        address::Address,
        amount::Percent,
        batch_call::{self, BatchItem},
        calldata::{Allowing, Calldata, Conversion, PaymentPlan, Standing, assemble},
        client_id::ClientId,
        conversion::RateBounds,
        currency::{ContractKind, Currency},
        fees::{FeeLeg, Fees, Legs},
        network::Network,
        pair::Pair,
        quote::Quote,
        rates::AppliedRate,
        refusal::{Refusal, RefusalKind},
        request::{Request, payable::Unpayable, terms::Exchange},
    },
    flows::{Fault, FlowError, FlowResult, rates},
    ports::chain::PayerLookup,
};
use alloy::primitives::{Address as EvmAddress, U256};
use anyhow::anyhow;
use chrono::{DateTime, Utc};

/// Units of the payment currency up to which the amount without its fee may convert to nothing: a fee is at most as
/// large as its amount, and each of the two is rounded down.
const DUST_MAX: U256 = U256::from_limbs([3, 0, 0, 0]);

/// How a request is paid.
#[derive(Debug, Clone)]
pub struct Planned {
    /// The payment, with the fee that rides in it. What its conversion may spend is enough for all fees.
    pub plan: PaymentPlan,
    /// What further receivers of fees get, in the same transaction.
    pub further_fees: Vec<FeeLeg>,
    /// What is charged on top.
    pub fees: Fees,
    /// What is promised, where no price feed on chain converts.
    pub quote: Option<Quote>,
}

/// What is handed out for a request.
#[derive(Debug, Clone)]
pub struct Handout {
    /// Where it is paid.
    pub network: Network,
    /// How it is paid.
    pub planned: Planned,
    /// What the payer signs.
    pub calldata: Calldata,
    /// When what was quoted ends.
    pub ends_at: Option<DateTime<Utc>>,
    /// What the chain says about the payer, when one is named.
    pub standing: Option<Standing>,
}

/// Plans the payment of so many settlement units of a request, and looks the payer up.
///
/// With two receivers of fees the payment goes through the batch contract, so that all of them get theirs or nobody gets
/// anything. Without `wallet` a direct payment with at most one asks no node. Errors: nothing pays the request (400), no
/// node that answers in time while one is needed (502).
pub async fn prepared(
    ctx: &Ctx,
    request: &Request,
    units: U256,
    fees: Fees,
    (wallet, allowing): (Option<Address>, Allowing),
) -> FlowResult<Handout> {
    let asked = async {
        let planned = planned(ctx, request, units, fees).await?;
        assembled(ctx, request.terms.network, planned, (wallet, allowing)).await
    };
    in_time(request.terms.network, asked).await
}

/// The transactions of a payment that is planned; looks the payer up.
pub async fn assembled(
    ctx: &Ctx,
    network: Network,
    planned: Planned,
    (wallet, allowing): (Option<Address>, Allowing),
) -> FlowResult<Handout> {
    let plan = &planned.plan;
    let batch = match planned.further_fees.is_empty() {
        true => None,
        false => Some(batch_terms(ctx, network).await?),
    };
    let called = batch.as_ref().map_or(plan.proxy, |batch| batch.contract);
    let standing = match wallet {
        Some(wallet) => Some(payers(ctx, network)?.standing(wallet, plan.token, called).await?),
        None => None,
    };
    let calldata = match &batch {
        Some(batch) => {
            let further_fees = &planned.further_fees;
            batch_call::assemble(
                batch,
                BatchItem { plan, further_fees },
                wallet,
                standing.as_ref(),
                allowing,
            )?
        }
        None => assemble(plan, standing.as_ref(), allowing),
    };
    Ok(Handout {
        network,
        ends_at: planned.quote.map(|quote| quote.until),
        planned,
        calldata,
        standing,
    })
}

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

/// What is charged on top of a payment of a request: what was fixed when it was created and, where that left the platform
/// without a fee, the one of another client ID that asks, else that of the call, whose receiver was checked.
///
/// Errors: the fee of the client ID would go to a contract that keeps it (400).
pub fn fees(
    ctx: &Ctx,
    request: &Request,
    client: Option<&ClientId>,
    call: Option<(Percent, Address)>,
) -> FlowResult<Fees> {
    let network = request.terms.network;
    let other_client = client.filter(|client| request.origin.client.as_ref() != Some(&client.row));
    let other_fee = other_client.and_then(ClientId::fee);
    let fees = request.terms.price.fees.asked_with(other_fee, call, network);
    Ok(fees.checked(network, &ctx.catalogue)?)
}

/// The payment of so many units with its fees, as far as it is known without a rate: enough to say what gas it needs.
/// What a conversion may spend is missing.
///
/// Errors: nothing pays the request (400).
pub fn outlined(ctx: &Ctx, request: &Request, units: U256, fees: &Fees) -> FlowResult<(PaymentPlan, Vec<FeeLeg>)> {
    let currencies = currencies(ctx, request)?;
    let terms = &request.terms;
    let for_bank = || Refusal::invalid(Unpayable::ForBankAccount.alone());
    let payee = terms.payee.ok_or_else(for_bank)?;
    let kind = match (terms.exchange(), terms.token.is_some()) {
        (Exchange::Direct | Exchange::Quoted, true) => ContractKind::Erc20FeeProxy,
        (Exchange::Direct | Exchange::Quoted, false) => ContractKind::EthereumFeeProxy,
        (Exchange::OnChain, true) => ContractKind::Erc20ConversionProxy,
        (Exchange::OnChain, false) => ContractKind::EthConversionProxy,
    };
    let proxy = contract(ctx, terms.network, kind)?;
    let Sum { legs, .. } = Sum::of(units, fees)?;
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
    let plan = PaymentPlan {
        proxy,
        token: terms.token,
        resets_allowance: currencies.payment.resets_allowance(),
        payee,
        units,
        reference: request.reference,
        fee: legs.riding,
        conversion,
    };
    Ok((plan, legs.further.into_iter().collect()))
}

/// Plans the payment of so many settlement units of a request. Only a conversion on chain asks a node, for its rates.
///
/// Errors: nothing pays the request (400), no node that answers, no rate that is beyond doubt (502).
pub async fn planned(ctx: &Ctx, request: &Request, units: U256, fees: Fees) -> FlowResult<Planned> {
    let applied = match quoted_pair(ctx, request)? {
        Some(pair) => Some(rates::current(ctx, &pair).await?),
        None => None,
    };
    planned_at(ctx, request, units, fees, applied).await
}

/// The pair whose rate the quotes of a request need; `None` where nothing is quoted.
pub fn quoted_pair(ctx: &Ctx, request: &Request) -> FlowResult<Option<Pair>> {
    Ok(request.terms.quoted_pair(currencies(ctx, request)?.payment))
}

/// The same with the rate of its pair, where it is quoted.
pub async fn planned_at(
    ctx: &Ctx,
    request: &Request,
    units: U256,
    fees: Fees,
    applied: Option<AppliedRate>,
) -> FlowResult<Planned> {
    let currencies = currencies(ctx, request)?;
    let decimals = currencies.payment.decimals;
    let quote = applied.map(|applied| {
        let (now, lasts) = (ctx.clock.now(), ctx.payments.quotes_last);
        Quote::of(units, decimals, applied, now, lasts).ok_or_else(too_large)
    });
    let quote = quote.transpose()?;
    let units = quote.map_or(units, |quote| quote.units);
    let (mut plan, mut further_fees) = outlined(ctx, request, units, &fees)?;
    if let Some(conversion) = plan.conversion.take() {
        let payers = payers(ctx, request.terms.network)?;
        let mut converted = payers
            .convert(&conversion.path, Sum::of(units, &fees)?.total)
            .await?
            .units;
        if converted <= DUST_MAX {
            let least = least_units(ctx, &conversion.path, currencies.payment, payers).await?;
            if units < least {
                (plan, further_fees) = outlined(ctx, request, least, &fees)?;
                let total = Sum::of(least, &fees)?.total;
                converted = payers.convert(&conversion.path, total).await?.units;
            }
        }
        plan.conversion = Some(Conversion {
            max_to_spend: with_margin(ctx, converted).ok_or_else(too_large)?,
            ..conversion
        });
    }
    Ok(Planned {
        plan,
        further_fees,
        fees,
        quote,
    })
}

fn contract(ctx: &Ctx, network: Network, kind: ContractKind) -> Result<Address, Refusal> {
    let known = ctx.catalogue.default_contract(network, kind);
    known.ok_or_else(|| Refusal::invalid(format!("{network} has no contract for this kind of payment")))
}

/// What is paid and the fees on top of it.
struct Sum {
    legs: Legs,
    total: U256,
}

impl Sum {
    /// Errors: the sum leaves 256 bits.
    fn of(units: U256, fees: &Fees) -> Result<Self, Refusal> {
        let legs = fees.legs(units).ok_or_else(too_large)?;
        let total = legs.units().and_then(|fees| units.checked_add(fees));
        Ok(Self {
            legs,
            total: total.ok_or_else(too_large)?,
        })
    }
}

fn too_large() -> Refusal {
    Refusal::field("amount", "is too large together with the fee")
}

/// Converts units where the result is fixed, so that no contract looks at the age of the rates when it is paid.
///
/// Errors: the rates are older than a payment may use (502).
pub(in crate::flows) async fn convert_recent(
    ctx: &Ctx,
    network: Network,
    rates: &RateBounds,
    units: U256,
) -> FlowResult<U256> {
    let converted = payers(ctx, network)?.convert(&rates.path, units).await?;
    let now_s = U256::from(ctx.clock.now().timestamp().cast_unsigned());
    if !rates.admit(converted.oldest_rate_at_s, now_s) {
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
async fn least_units(ctx: &Ctx, path: &[EvmAddress], payment: &Currency, payers: &dyn PayerLookup) -> FlowResult<U256> {
    // The contracts write rates with 18 digits.
    let one = U256::from(10).pow(U256::from(18));
    let rate = payers.convert(path, one).await?.units;
    let least = one
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
