//! The batch contract of a network and the fee of this contract, which the service reads from the chain.

use super::{legs::payment_contracts, lookup::Lookup};
use crate::{
    ctx::Ctx,
    domain::{
        address::Address,
        network::Network,
        paying::batch_contract::BatchTerms,
        refusal::{Refusal, RefusalKind},
    },
    flows::{FlowError, FlowResult},
    ports::chain::ChainError,
};

/// Reads the terms of the batch contract of the network of a lookup.
///
/// Errors: the network has no batch contract, or its batch contract does not work (400); no node responds (502).
pub(super) async fn batch_terms(ctx: &Ctx, lookup: &Lookup) -> FlowResult<BatchTerms> {
    let network = lookup.network();
    let contracts = payment_contracts(ctx, network);
    let contract = contracts.batch_contract()?;
    let asked = lookup.batch_fee(contract).await;
    let fee_basis_points = asked.map_err(|error| match error {
        ChainError::Reverted(reason) => unfit(network, contract, &reason).into(),
        other => FlowError::from(other),
    })?;
    Ok(contracts.batch_terms(contract, fee_basis_points))
}

/// A contract that does not support the query is not a batch contract; only the operator can fix this.
fn unfit(network: Network, contract: Address, reason: &str) -> Refusal {
    tracing::error!(
        %network, %contract, reason,
        "the contract does not return its batch fee: check its address in chains.{network}.contracts"
    );
    let sentence = format!(
        "{network} currently has no working contract for several payments in one transaction; the operator has to fix this"
    );
    Refusal::new(RefusalKind::Upstream, sentence)
}
