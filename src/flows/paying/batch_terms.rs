//! What the batch contract of a network takes for itself, as the chain says it.

use super::lookup::Lookup;
use crate::{
    ctx::Ctx,
    domain::{
        address::Address,
        currency::{ContractKind, CurrencyFilter},
        network::Network,
        paying::batch_contract::{BatchTerms, admit_networks},
        refusal::{Refusal, RefusalKind},
    },
    flows::{FlowError, FlowResult},
    ports::chain::ChainError,
};
use std::collections::BTreeMap;

/// Reads the terms of the batch contract of the network of a lookup.
///
/// Errors: the network has none, or its batch contract is not used (400), no node that answers (502).
pub(super) async fn batch_terms(ctx: &Ctx, lookup: &Lookup) -> FlowResult<BatchTerms> {
    let network = lookup.network();
    admit_networks([network])?;
    let contract = ctx
        .catalogue
        .default_contract(network, ContractKind::BatchConversionPayments);
    let contract = contract.ok_or_else(|| {
        Refusal::invalid(format!(
            "{network} has no contract that makes several payments in one transaction"
        ))
    })?;
    let asked = lookup.batch_fee(contract).await;
    let fee_basis_points = asked.map_err(|error| match error {
        ChainError::Reverted(reason) => unfit(network, contract, &reason).into(),
        other => FlowError::from(other),
    })?;
    let mut paths_to_usd = BTreeMap::new();
    if let Some(dollar) = ctx.catalogue.find("USD").filter(|_| fee_basis_points > 0) {
        let of_network = CurrencyFilter {
            network: Some(network.id().to_owned()),
            ..CurrencyFilter::default()
        };
        for currency in ctx.catalogue.list(&of_network) {
            let path = ctx.catalogue.conversion_path(dollar, currency).unwrap_or_default();
            let hashes: Option<Vec<_>> = path.iter().rev().map(|hash| hash.parse().ok()).collect();
            if let Some(hashes) = hashes.filter(|hashes| !hashes.is_empty()) {
                paths_to_usd.insert(currency.token(), hashes);
            }
        }
    }
    Ok(BatchTerms {
        contract,
        fee_basis_points,
        paths_to_usd,
    })
}

/// A contract that does not know the question is no batch contract, which the operator mends and no caller.
fn unfit(network: Network, contract: Address, reason: &str) -> Refusal {
    tracing::error!(
        %network, %contract, reason,
        "the contract does not say what it takes for a batch: check its address in chains.{network}.contracts"
    );
    let sentence = format!(
        "{network} cannot make several payments in one transaction at the moment; the operator has to mend that"
    );
    Refusal::new(RefusalKind::Upstream, sentence)
}
