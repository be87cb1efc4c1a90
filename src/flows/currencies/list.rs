//! Lists currencies.

use crate::{
    ctx::Ctx,
    domain::{
        currency::{Currency, CurrencyFilter},
        refusal::Refusal,
    },
    flows::FlowResult,
};

/// Currencies of the enabled networks that match the filter.
///
/// Errors: `firstOnly` without both filters (400), no match (404). Source: rules P.3.1; decisions D5.
pub fn run(ctx: &Ctx, filter: &CurrencyFilter) -> FlowResult<Vec<Currency>> {
    if filter.first_only && (filter.network.is_none() || filter.symbol.is_none()) {
        return Err(Refusal::field(
            "firstOnly",
            "firstOnly can only be used when both network and symbol are provided",
        )
        .led_by("firstOnly")
        .into());
    }
    let found: Vec<Currency> = ctx.catalogue.list(filter).into_iter().cloned().collect();
    let filtered = filter.network.is_some() || filter.symbol.is_some() || filter.id.is_some();
    if found.is_empty() && filtered {
        return Err(Refusal::not_found("Token not found").into());
    }
    Ok(found)
}
