//! Lists what an invoice currency can be paid in.

use crate::{
    ctx::Ctx,
    domain::{currency::Currency, refusal::Refusal},
    flows::FlowResult,
};

/// Payment currencies of an invoice currency.
#[derive(Debug, Clone)]
pub struct Routes {
    /// Canonical id of the invoice currency.
    pub currency_id: String,
    /// The alias by which it was asked for; `None` when that was its canonical id.
    pub alias: Option<String>,
    /// What it can be paid in.
    pub routes: Vec<Currency>,
}

/// Finds the routes. Errors: an unknown currency (404). A known one without routes has an empty list.
///
/// Source: rules P.3.1.
pub fn run(ctx: &Ctx, currency_id: &str, networks: Option<&[String]>) -> FlowResult<Routes> {
    let invoice = ctx
        .catalogue
        .find(currency_id)
        .ok_or_else(|| Refusal::not_found("Token not found"))?;
    let routes = ctx.catalogue.routes(invoice, networks).into_iter().cloned().collect();
    let mut aliases = invoice.aliases.iter();
    Ok(Routes {
        currency_id: invoice.id.clone(),
        alias: aliases.find(|alias| alias.eq_ignore_ascii_case(currency_id)).cloned(),
        routes,
    })
}
