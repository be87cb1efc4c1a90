//! Issues the calldata that pays a request.

use crate::{
    ctx::Ctx,
    domain::{
        address::Address,
        amount::{Amount, Percent},
        calldata::{Calldata, Conversion, PaymentPlan, PlatformFee, assemble},
        caller::PlatformCaller,
        client_id::ClientId,
        conversion::RateBounds,
        currency::{ContractKind, Currency},
        handed_out::{HandedOut, NAMED_FEES_MAX},
        network::{Family, Network},
        refusal::{Checks, Refusal},
        request::Request,
    },
    flows::{Fault, FlowError, FlowResult, requests::find},
    ports::chain::PayerLookup,
    store::{self, Tx},
};
use alloy::primitives::U256;
use anyhow::anyhow;
use chrono::{DateTime, Utc};
use std::sync::Arc;

/// Units of the payment currency up to which the amount without its fee may convert to nothing: a fee is at most as
/// large as its amount, and each of the two is rounded down.
const DUST_MAX: U256 = U256::from_limbs([3, 0, 0, 0]);

/// What a caller asks for; every value holds for itself.
#[derive(Debug, Clone, Default)]
pub struct PayInput {
    /// Payer.
    pub wallet: Option<Address>,
    /// Whether it is to be paid from another chain.
    pub is_crosschain: bool,
    /// Part of the amount, in the invoice currency.
    pub amount: Option<Amount>,
    /// Payer of an off-ramp payment.
    pub client_user_id: Option<String>,
    /// Bank account of an off-ramp payment.
    pub payment_details_id: Option<String>,
    /// Fee and its receiver.
    pub fee: Option<(Percent, Address)>,
}

/// Plans the payment and looks the payer up.
///
/// Without `wallet` a direct payment asks no node. What is answered is kept before, so that a payment can be compared
/// with it. Errors: wrong fields (400), an unknown request (404), no node that answers while one is needed (502).
/// Source: interface §4.3; rules P.3.3; decisions D10; decisions D38.
pub async fn run(ctx: &Ctx, caller: &PlatformCaller, request_id: &str, input: &PayInput) -> FlowResult<Calldata> {
    let request = find(ctx, caller, request_id).await?;
    let client = client(ctx, caller).await?;
    let currencies = currencies(ctx, &request)?;
    let decided = decide(ctx, &request, &currencies, input, client.as_ref().and_then(own_fee))?;
    let payers = ctx.partners.chains.payers.get(&request.terms.network);
    let plan = plan(ctx, &request, &currencies, &decided, payers).await?;
    let standing = match decided.wallet {
        Some(wallet) => {
            let payers = payers.ok_or_else(|| not_enabled(request.terms.network))?;
            Some(payers.standing(wallet, plan.token, plan.proxy).await?)
        }
        None => None,
    };
    let calldata = assemble(&plan, standing.as_ref());
    let handed = HandedOut::of(&plan, !caller.is_public() || decided.is_own_fee);
    let (asker, now) = (caller.client(), ctx.clock.now());
    let is_new = !store::handed_out::is_kept(ctx.db.reader(), &request, asker, &handed, now).await?;
    if is_new || !request.ledger.is_listening {
        let tx = ctx.db.begin("issue_calldata").await?;
        if is_new {
            if handed.is_binding && handed.fee.is_some() && !decided.is_own_fee {
                check_fees(&tx, &request, caller, &handed, now).await?;
            }
            store::handed_out::keep(&tx, &request, asker, &handed, now).await?;
        }
        if !request.ledger.is_listening {
            store::requests::set_listening(&tx, &request.row).await?;
        }
        tx.commit().await?;
    }
    Ok(calldata)
}

/// Checks that the credential of the call may name one more fee for this request; calls at the same time wait for each
/// other. Errors: it named too many (400).
async fn check_fees(
    tx: &Tx,
    request: &Request,
    caller: &PlatformCaller,
    handed: &HandedOut,
    now: DateTime<Utc>,
) -> FlowResult<()> {
    store::requests::lock(tx, request).await?;
    let asker = caller.client();
    let is_full = store::handed_out::count_fees(tx, request, asker).await? >= NAMED_FEES_MAX;
    if is_full && !store::handed_out::is_kept(tx, request, asker, handed, now).await? {
        let sentence = format!(
            "This credential asked for this request with {NAMED_FEES_MAX} different fees already; ask with one of \
             them, or without a fee"
        );
        return Err(Refusal::invalid(sentence).into());
    }
    Ok(())
}

struct Currencies<'a> {
    invoice: &'a Currency,
    payment: &'a Currency,
}

/// What the input asks for, once it makes sense.
struct Decided {
    wallet: Option<Address>,
    units: U256,
    fee: Option<(Percent, Address)>,
    /// Whether the fee is the one that is set on the client ID of the call.
    is_own_fee: bool,
}

fn currencies<'a>(ctx: &'a Ctx, request: &Request) -> FlowResult<Currencies<'a>> {
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

/// The client ID of the call.
async fn client(ctx: &Ctx, caller: &PlatformCaller) -> FlowResult<Option<ClientId>> {
    let Some(row) = caller.client() else {
        return Ok(None);
    };
    Ok(store::client_ids::find(ctx.db.reader(), &caller.platform, row).await?)
}

/// The fee that is set on a client ID: other than `0` it overrides the fee of the call.
///
/// Source: rules P.7.1.
fn own_fee(client: &ClientId) -> Option<(Percent, Address)> {
    let fee = client.fee_percentage.zip(client.fee_address);
    fee.filter(|(percent, _)| percent.basis_points() > 0)
}

fn decide(
    ctx: &Ctx,
    request: &Request,
    currencies: &Currencies<'_>,
    input: &PayInput,
    client_fee: Option<(Percent, Address)>,
) -> Result<Decided, Refusal> {
    let Request { terms, ledger, .. } = request;
    let mut checks = Checks::new();
    let wallet = input
        .wallet
        .and_then(|wallet| checks.take("wallet", wallet.usable_on(terms.network)));
    if input.is_crosschain {
        let reason = if terms.network.family() == Family::Tron {
            "must be absent: Tron payments are same-chain only"
        } else {
            "must be absent: no crosschain route is configured on this service"
        };
        checks.fail("chain", reason);
    }
    for (field, value) in [
        ("clientUserId", &input.client_user_id),
        ("paymentDetailsId", &input.payment_details_id),
    ] {
        if value.is_some() {
            checks.fail(field, "must be absent: the request is not a crypto-to-fiat request");
        }
    }
    let decimals = terms.settlement_decimals(currencies.payment);
    let part = input.amount.as_ref().and_then(|amount| {
        checks.take("amount", amount.to_units(currencies.invoice.decimals))?;
        checks.take("amount", amount.to_units(decimals))
    });
    let fee = input.fee.and_then(|(percent, address)| {
        Some((
            percent,
            checks.take("feeAddress", ctx.catalogue.receiver(address, terms.network))?,
        ))
    });
    checks.finish()?;
    if ledger.has_been_paid() {
        return Err(Refusal::invalid("Request has already been paid"));
    }
    if terms.is_recurrence_stopped() {
        return Err(Refusal::invalid("The recurrence of this request is stopped"));
    }
    let remaining = ledger.remaining();
    let units = part.unwrap_or(remaining).min(remaining);
    // A fee address of the other family cannot receive on this network.
    let client_fee = client_fee.filter(|(_, address)| address.family() == terms.network.family());
    if let Some((_, address)) = client_fee {
        // It was a wallet when it was stored, but the catalogue may know more since.
        let receiver = ctx.catalogue.receiver(address, terms.network);
        receiver.map_err(|message| Refusal::invalid(format!("feeAddress of the client ID {message}")))?;
    }
    let fee = client_fee.or(fee).filter(|(percent, _)| percent.basis_points() > 0);
    Ok(Decided {
        wallet,
        units,
        fee,
        is_own_fee: client_fee.is_some(),
    })
}

async fn plan(
    ctx: &Ctx,
    request: &Request,
    currencies: &Currencies<'_>,
    decided: &Decided,
    payers: Option<&Arc<dyn PayerLookup>>,
) -> FlowResult<PaymentPlan> {
    let terms = &request.terms;
    let kind = match (terms.is_converted(), terms.token.is_some()) {
        (false, true) => ContractKind::Erc20FeeProxy,
        (false, false) => ContractKind::EthereumFeeProxy,
        (true, true) => ContractKind::Erc20ConversionProxy,
        (true, false) => ContractKind::EthConversionProxy,
    };
    let proxy = ctx.catalogue.default_contract(terms.network, kind);
    let proxy =
        proxy.ok_or_else(|| Refusal::invalid(format!("{} has no contract for this kind of payment", terms.network)))?;
    let mut sum = Sum::of(decided.units, decided.fee)?;
    let conversion = if terms.is_converted() {
        let payers = payers.ok_or_else(|| not_enabled(terms.network))?;
        let rates = RateBounds::between(
            &ctx.catalogue,
            &ctx.payments.rate_ages,
            currencies.invoice,
            currencies.payment,
        )
        .ok_or_else(|| Refusal::invalid("There is no conversion route for these currencies any more"))?;
        let mut converted = payers.convert(&rates.path, sum.total).await?;
        if converted <= DUST_MAX {
            let least = least_units(ctx, &rates, currencies.payment, payers.as_ref()).await?;
            if sum.units < least {
                sum = Sum::of(least, decided.fee)?;
                converted = payers.convert(&rates.path, sum.total).await?;
            }
        }
        Some(Conversion {
            path: rates.path,
            max_to_spend: with_margin(ctx, converted).ok_or_else(too_large)?,
            max_rate_timespan_s: rates.max_age_s,
        })
    } else {
        None
    };
    Ok(PaymentPlan {
        proxy,
        token: terms.token,
        resets_allowance: currencies.payment.symbol.starts_with("USDT"),
        payee: terms.payee,
        units: sum.units,
        reference: request.reference,
        fee: sum.fee,
        conversion,
    })
}

/// What is paid and the fee on top of it.
struct Sum {
    units: U256,
    fee: Option<PlatformFee>,
    total: U256,
}

impl Sum {
    fn of(units: U256, fee: Option<(Percent, Address)>) -> Result<Self, Refusal> {
        let fee = fee.map(|(percent, address)| PlatformFee {
            percent,
            address,
            units: percent.of(units),
        });
        let total = units.checked_add(fee.map_or(U256::ZERO, |fee| fee.units));
        Ok(Self {
            units,
            fee,
            total: total.ok_or_else(too_large)?,
        })
    }
}

fn too_large() -> Refusal {
    Refusal::field("amount", "is too large together with the fee")
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
async fn least_units(ctx: &Ctx, rates: &RateBounds, payment: &Currency, payers: &dyn PayerLookup) -> FlowResult<U256> {
    // The contracts write rates with 18 digits.
    let one = U256::from(10).pow(U256::from(18));
    let rate = payers.convert(&rates.path, one).await?;
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

fn not_enabled(network: Network) -> Refusal {
    Refusal::invalid(format!("Network {network} is not enabled on this service"))
}
