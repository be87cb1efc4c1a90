//! The terms of the calldata that was issued for paid requests, and the cost of requests, with which payments that do
//! not match these terms are compared.

use crate::{
    ctx::Ctx,
    domain::{handed_out::HandedOut, ids::RequestRowId, network::Network, request::Request},
    flows::FlowResult,
    store,
};
use alloy::primitives::{Address as EvmAddress, U256, U512};
use std::collections::HashMap;

/// Digits of the amount that is converted to get a rate; enough for any path.
const SAMPLE_DIGITS: u8 = 18;

/// For each request, in order, the fees of the calldata issued for it that its price terms do not already fix.
pub(super) async fn of(ctx: &Ctx, requests: &[Request]) -> FlowResult<Vec<Vec<HandedOut>>> {
    let wanted: Vec<&Request> = requests.iter().collect();
    let mut kept = store::handed_out::of_requests(ctx.db.reader(), &wanted).await?;
    let of_request = |request: &Request| kept.remove(&request.row).unwrap_or_default();
    Ok(requests.iter().map(of_request).collect())
}

/// Cost of requests in units of their payment currency, at the current rates along their fixed paths.
///
/// A request without a fixed path, or with an unreadable rate, is missing in the result. The rates of a path are read
/// once.
pub(super) async fn worth(
    ctx: &Ctx,
    network: Network,
    requests: impl Iterator<Item = &Request>,
) -> HashMap<RequestRowId, U256> {
    let mut worth = HashMap::new();
    let Some(feeds) = ctx.partners.chains.price_feeds.get(&network) else {
        return worth;
    };
    let sample = U256::from(10).pow(U256::from(SAMPLE_DIGITS));
    let mut samples: HashMap<&[EvmAddress], Option<U256>> = HashMap::new();
    for request in requests {
        let Some(rates) = &request.terms.price.rates else {
            continue;
        };
        let known = samples.get(rates.path.as_slice()).copied();
        let units = match known {
            Some(units) => units,
            None => {
                let units = feeds.convert(&rates.path, sample).await;
                if let Err(error) = &units {
                    tracing::warn!(%network, %error, "the value of a quarantined payment could not be determined");
                }
                *samples
                    .entry(&rates.path)
                    .or_insert(units.ok().map(|units| units.units))
            }
        };
        let whole = units.and_then(|units| {
            let whole = U512::from(units) * U512::from(request.ledger.expected) / U512::from(sample);
            U256::checked_from_limbs_slice(whole.as_limbs())
        });
        worth.extend(whole.map(|whole| (request.row.clone(), whole)));
    }
    worth
}
