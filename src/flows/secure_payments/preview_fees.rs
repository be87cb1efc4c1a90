//! Shows the fees of a secure payment before there is one.

use crate::{
    ctx::Ctx,
    domain::{
        amount::Amount,
        caller::PlatformCaller,
        client_id::ClientId,
        currency::Currency,
        paying::charge::{Base, Charges, FeeBearer},
        refusal::{Checks, Refusal},
        secure_payment::{PaymentFlow, fee_plan::FeePlan},
    },
    flows::{FlowResult, requests::of_client::client_of},
};

/// What is asked about; every value holds for itself.
#[derive(Debug, Clone)]
pub struct PreviewedPayment {
    /// Amount in the currency.
    pub amount: Amount,
    /// Id or symbol of a currency.
    pub currency: String,
    /// Which way the money goes.
    pub flow: PaymentFlow,
    /// Who bears fees that nothing else decides about.
    pub default_bearer: Option<FeeBearer>,
}

/// The fees that a secure payment of the caller would have, without one that a call names. Nothing is stored.
///
/// Errors: no dollar token of an enabled network, or an amount that it cannot have (400). Source: rules P.3.7; rules P.7.1.
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
    let base = Base {
        network,
        unit: currency,
        decimals: currency.decimals,
    };
    let protocol = ctx.payments.protocol_fee.as_ref();
    let client_fee = client.as_ref().and_then(ClientId::fee);
    let charges = Charges::fixed(base, client_fee, protocol).checked(network, &ctx.catalogue)?;
    let bearer = asked.default_bearer.unwrap_or(asked.flow.usual_bearer());
    let plan = FeePlan::of(asked.flow, bearer, currency, &[(units, charges)]);
    Ok(plan.ok_or_else(|| Refusal::field("amount", "is too large for this currency"))?)
}

/// What is said of a currency whose fees cannot be told in dollars.
const NO_STABLECOIN: &str = "must be a stablecoin of an enabled network, by its id or its symbol: USDC, USDT or DAI";

/// The stablecoin of an id, or the first one of an enabled network with this symbol. Errors: there is none.
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
