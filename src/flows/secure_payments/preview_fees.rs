//! Calculates the fees of a secure payment before it is created.

use crate::{
    ctx::Ctx,
    domain::{
        amount::Amount,
        caller::PlatformCaller,
        client_id::ClientId,
        currency::Currency,
        paying::{
            capture::capture,
            charge::{ChargeBase, Charges, FeeBearer},
            contracts::check_receivers,
        },
        refusal::{Checks, Refusal},
        secure_payment::{PaymentFlow, fee_plan::FeePlan},
    },
    flows::{
        FlowResult,
        requests::of_client::{client_of, orchestrator_fees},
    },
};

/// The payment to preview; every value is valid on its own.
#[derive(Debug, Clone)]
pub struct PreviewedPayment {
    /// Amount in the currency.
    pub amount: Amount,
    /// Id or symbol of a currency.
    pub currency: String,
    /// Direction of the payment.
    pub flow: PaymentFlow,
    /// Who bears a fee if no other setting determines its bearer.
    pub default_bearer: Option<FeeBearer>,
}

/// The fees that a secure payment of the caller would have, without fees named in a call. Nothing is stored.
///
/// Errors: a currency that is not a dollar token of an enabled network, or an amount that is invalid in this token
/// (400). Source: rules P.3.7; rules P.7.1.
pub async fn run(ctx: &Ctx, caller: &PlatformCaller, asked: &PreviewedPayment) -> FlowResult<FeePlan> {
    let mut checks = Checks::new();
    let currency = checks.take("currency", stablecoin(ctx, &asked.currency));
    let units = currency.and_then(|currency| {
        let units = checks.take("amount", asked.amount.to_units(currency.decimals))?;
        Some((currency, units))
    });
    let (currency, units) = checks.finish_with(units)?;
    let client = client_of(ctx, caller).await?;
    let network = currency.network;
    let network = network.ok_or_else(|| Refusal::field("currency", NO_STABLECOIN))?;
    let base = ChargeBase {
        network,
        unit: currency,
        decimals: currency.decimals,
    };
    let protocol = ctx.payments.protocol_fee.as_ref();
    let client_fee = client.as_ref().and_then(ClientId::fee);
    let fees = orchestrator_fees(ctx, caller, asked.flow).await?;
    let captured = capture(&fees, network, currency, units).map_err(|sentence| Refusal::field("amount", sentence))?;
    let charges = Charges::fixed(base, client_fee, protocol).checked(network, &ctx.catalogue)?;
    let charges = charges.with_captured(captured);
    check_receivers(network, &charges)?;
    let bearer = asked.default_bearer.unwrap_or(asked.flow.usual_bearer());
    let plan = FeePlan::of(asked.flow, bearer, currency, &[(units, charges)]);
    Ok(plan.ok_or_else(|| Refusal::field("amount", "is too large for this currency"))?)
}

/// Message for a currency whose fees cannot be given in dollars.
const NO_STABLECOIN: &str = "must be a stablecoin of an enabled network, by its id or its symbol: USDC, USDT or DAI";

/// The stablecoin with an id, or the first one of an enabled network with this symbol. Errors: none exists.
fn stablecoin<'a>(ctx: &'a Ctx, text: &str) -> Result<&'a Currency, &'static str> {
    let ids = ctx.catalogue.ids_or_symbols(text);
    let mut known = ids.iter().filter_map(|id| ctx.catalogue.find(id));
    let is_served = |currency: &&Currency| {
        let is_enabled = currency
            .network
            .is_some_and(|network| ctx.catalogue.is_enabled(network));
        is_enabled && currency.is_dollar()
    };
    known.find(is_served).ok_or(NO_STABLECOIN)
}
