//! Lists the payment currencies of an invoice currency.

use crate::{
    ctx::Ctx,
    domain::{currency::Currency, refusal::Refusal},
    flows::FlowResult,
};

/// Payment currencies of an invoice currency.
#[derive(Debug, Clone)]
pub struct CurrencyRoutes {
    /// Canonical id of the invoice currency.
    pub currency_id: String,
    /// The alias in the call; `None` for a canonical id.
    pub alias: Option<String>,
    /// The payment currencies.
    pub routes: Vec<Currency>,
}

/// Finds the routes. A known currency without routes has an empty list. Errors: an unknown currency, or one that only
/// pays network fees (404).
///
/// Source: rules P.3.1.
pub fn run(ctx: &Ctx, currency_id: &str, networks: Option<&[String]>) -> FlowResult<CurrencyRoutes> {
    let invoice = ctx
        .catalogue
        .find(currency_id)
        .filter(|currency| !currency.only_pays_fees())
        .ok_or_else(|| Refusal::not_found("Token not found"))?;
    let routes = ctx.catalogue.routes(invoice, networks).into_iter().cloned().collect();
    let mut aliases = invoice.aliases.iter();
    Ok(CurrencyRoutes {
        currency_id: invoice.id.clone(),
        alias: aliases.find(|alias| alias.eq_ignore_ascii_case(currency_id)).cloned(),
        routes,
    })
}
