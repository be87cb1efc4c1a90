//! The batch contract of a network and the fee of this contract, which the service reads from the chain.

use super::{handout::HandoutError, legs::payment_contracts, lookup::Lookup};
use crate::{
    ctx::Ctx,
    domain::{
        address::Address,
        network::Network,
        paying::{
            BundleError, Leg,
            batch_contract::{BatchContract, BatchTerms, fitting},
        },
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

/// The error for payments that a contract cannot pay.
pub(super) fn refused(
    error: BundleError,
    terms: Option<&BatchTerms>,
    legs: &[Leg],
    payer: Option<Address>,
) -> HandoutError {
    match error {
        BundleError::TooLarge => HandoutError::TooLarge(terms.map_or(0, |terms| fitting(terms, legs, payer, u64::MAX))),
        BundleError::NoPayer => HandoutError::NoPayer,
        error => HandoutError::Failed(Refusal::from(error).into()),
    }
}

/// Checks that payments fit into one transaction. Errors: they do not.
pub(super) fn check_gas(
    terms: &BatchTerms,
    legs: &[Leg],
    payer: Option<Address>,
    gas_max: u64,
) -> Result<(), HandoutError> {
    let batch = BatchContract::admit(terms, legs, payer);
    let gas = batch.map_err(|error| refused(error, Some(terms), legs, payer))?.gas();
    if gas > gas_max {
        return Err(HandoutError::TooMuchGas {
            counts: (legs.len(), fitting(terms, legs, payer, gas_max)),
            gas: (gas, gas_max),
        });
    }
    Ok(())
}
