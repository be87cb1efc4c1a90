//! What was handed out for the requests that are paid, and what is said of a payment that does not keep to it.

use crate::{
    ctx::Ctx,
    domain::{handed_out::HandedOut, ids::RequestRowId, network::Network, request::Request},
    flows::FlowResult,
    store,
};
use alloy::primitives::{Address as EvmAddress, U256, U512};
use std::collections::HashMap;

/// Digits of the settlement units whose worth is read, enough for the rates of any path.
const SAMPLE_DIGITS: u8 = 18;

/// What was handed out for each request beyond its price terms, in the order of the requests.
pub(super) async fn of(ctx: &Ctx, requests: &[Request]) -> FlowResult<Vec<Vec<HandedOut>>> {
    let wanted: Vec<&Request> = requests.iter().collect();
    let mut kept = store::handed_out::of_requests(ctx.db.reader(), &wanted).await?;
    let of_request = |request: &Request| kept.remove(&request.row).unwrap_or_default();
    Ok(requests.iter().map(of_request).collect())
}

/// What requests cost in units of their payment currency, by the rates of now along the path that is fixed for each.
///
/// One without such a path, or whose rates cannot be read, is missing. The rates of a path are read once.
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
                    tracing::warn!(%network, %error, "nothing tells what a payment that is set aside is worth");
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
