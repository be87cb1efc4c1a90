//! Who answers about payers, and how long that may take.

use crate::{
    ctx::{Ctx, Partners},
    domain::{network::Network, refusal::Refusal},
    flows::FlowResult,
    ports::chain::{ChainError, Chains, PayerLookup},
};
use std::{sync::Arc, time::Duration};
use tokio::time::timeout;

/// Time in which a network has to answer all that calldata needs to know of it.
const PATIENCE: Duration = Duration::from_millis(2_500);

/// Who answers about payers on a network. Errors: it is not enabled (400).
pub fn payers(ctx: &Ctx, network: Network) -> Result<&dyn PayerLookup, Refusal> {
    let payers = ctx.partners.chains.payers.get(&network);
    let missing = || Refusal::invalid(format!("Network {network} is not enabled on this service"));
    payers.map(AsRef::as_ref).ok_or_else(missing)
}

/// The same handles, but with another way to ask a network about payers; `around` makes it of the present one.
pub fn asking(ctx: &Ctx, network: Network, around: impl FnOnce(Arc<dyn PayerLookup>) -> Arc<dyn PayerLookup>) -> Ctx {
    let mut payers = ctx.partners.chains.payers.clone();
    if let Some(present) = payers.remove(&network) {
        payers.insert(network, around(present));
    }
    let chains = Arc::new(Chains {
        payers,
        ..Chains::clone(&ctx.partners.chains)
    });
    Ctx {
        partners: Partners {
            chains,
            ..ctx.partners.clone()
        },
        ..ctx.clone()
    }
}

/// What a network answers in time. Errors: it does not (502).
pub async fn in_time<T>(network: Network, asked: impl Future<Output = FlowResult<T>>) -> FlowResult<T> {
    match timeout(PATIENCE, asked).await {
        Ok(answered) => answered,
        Err(_) => Err(ChainError::Unavailable {
            network,
            reason: "its answers took too long together".to_owned(),
        }
        .into()),
    }
}
