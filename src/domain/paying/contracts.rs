//! The payment contracts of a network, and the choice between them. Code for networks that pay in another way belongs
//! here.

use super::{
    Bundle, BundleError, Executor, Leg,
    batch_contract::{BatchContract, BatchTerms, admit_networks},
    charge::{Charge, Charges, FeeKind, FeeOrigin},
    fee_proxy::FeeProxy,
    tron_proxy::admit_on_tron,
};
use crate::domain::{
    address::Address,
    currency::{Catalogue, ContractKind, CurrencyFilter},
    network::{Family, Network},
    refusal::Refusal,
};
use std::collections::BTreeMap;

/// The payment contracts of a network.
#[derive(Clone, Copy)]
pub struct PaymentContracts<'a> {
    /// The network.
    pub network: Network,
    /// The catalogue that lists the contracts of the network.
    pub catalogue: &'a Catalogue,
}

impl PaymentContracts<'_> {
    /// The contract for a single payment. Errors: the network has none.
    pub fn fee_proxy(self, leg: &Leg) -> Result<Address, BundleError> {
        let kind = FeeProxy::kind(leg.token.is_some(), leg.conversion.is_some());
        let known = self.catalogue.default_contract(self.network, kind);
        known.ok_or(BundleError::NoContract(self.network))
    }

    /// The contract for several payments in one transaction. Errors: the network has none (400).
    pub fn batch_contract(self) -> Result<Address, Refusal> {
        admit_networks([self.network])?;
        let missing = || BundleError::NoBatchContract(self.network);
        Ok(self.known_batch_contract().ok_or_else(missing)?)
    }

    /// The terms of the batch contract, including its own fee.
    pub fn batch_terms(self, contract: Address, fee_basis_points: u16) -> BatchTerms {
        let dollar = self.catalogue.find("USD").filter(|_| fee_basis_points > 0);
        let of_network = CurrencyFilter {
            network: Some(self.network.id().to_owned()),
            ..CurrencyFilter::default()
        };
        let paths = dollar.into_iter().flat_map(|dollar| {
            self.catalogue
                .list(&of_network)
                .into_iter()
                .filter_map(move |currency| {
                    let path = self.catalogue.conversion_path(dollar, currency)?;
                    let hashes: Option<Vec<_>> = path.iter().rev().map(|hash| hash.parse().ok()).collect();
                    Some((currency.token(), hashes.filter(|hashes| !hashes.is_empty())?))
                })
        });
        BatchTerms {
            contract,
            fee_basis_points,
            paths_to_usd: paths.collect(),
        }
    }

    /// The terms of the batch contract for gas estimates, without its fee, which does not affect the gas. `None` when
    /// the network has no batch contract.
    pub fn terms_for_gas(self) -> Option<BatchTerms> {
        Some(BatchTerms {
            contract: self.known_batch_contract()?,
            fee_basis_points: 0,
            paths_to_usd: BTreeMap::new(),
        })
    }

    /// The contract that pays a bundle: the batch contract if its terms are given, otherwise a fee proxy.
    ///
    /// Errors: the contract cannot pay the bundle.
    pub fn executor(
        self,
        bundle: &Bundle,
        terms: Option<&BatchTerms>,
        payer: Option<Address>,
    ) -> Result<Box<dyn Executor>, BundleError> {
        Ok(match terms {
            Some(terms) => Box::new(BatchContract::admit(terms, &bundle.legs, payer)?),
            None => {
                let leg = bundle.for_fee_proxy().ok_or(BundleError::TooMany)?;
                let proxy = self.fee_proxy(leg)?;
                Box::new(match self.network.family() {
                    Family::Evm => FeeProxy::admit(proxy, leg)?,
                    Family::Tron => admit_on_tron(proxy, leg)?,
                })
            }
        })
    }

    fn known_batch_contract(self) -> Option<Address> {
        let kind = ContractKind::BatchConversionPayments;
        self.catalogue.default_contract(self.network, kind)
    }
}

/// Checks that the contracts of a network can pay all charges of a payment in one transaction. Tron has no contract
/// that pays several receivers of charges. The amount of the payment does not matter, so that a request with such
/// charges is refused when it is created.
///
/// Errors (400): there are several receivers. The refusal names the fee of the call, else that of the client ID, else
/// that of the orchestrator.
pub fn check_receivers(network: Network, charges: &Charges) -> Result<(), Refusal> {
    match network.family() {
        Family::Evm => Ok(()),
        Family::Tron => check_sole_receiver(network, charges),
    }
}

fn check_sole_receiver(network: Network, charges: &Charges) -> Result<(), Refusal> {
    let is_blamed = |charge: &&Charge| charge.kind != FeeKind::Protocol;
    let blamed = charges.iter().filter(is_blamed).min_by_key(|charge| blame(charge));
    let Some(blamed) = blamed else { return Ok(()) };
    let other = charges.iter().find(|charge| charge.receiver != blamed.receiver);
    let Some(other) = other else { return Ok(()) };
    let sentence = format!(
        "must be {}: a payment on {network} can pay fees to one receiver only, and {} goes to this one",
        other.receiver,
        owner(other)
    );
    Err(match blamed.source {
        FeeOrigin::Call => Refusal::field("feeAddress", sentence),
        FeeOrigin::ClientId => Refusal::invalid(format!("feeAddress of the client ID {sentence}")),
        FeeOrigin::OrchestratorDefault | FeeOrigin::OrchestratorClient | FeeOrigin::Service => Refusal::invalid(
            format!("tronRecipientAddress of the orchestrator's fee config {sentence}"),
        ),
    })
}

/// The order in which charges are named in a refusal.
fn blame(charge: &Charge) -> u8 {
    match charge.source {
        FeeOrigin::Call => 0,
        FeeOrigin::ClientId => 1,
        FeeOrigin::OrchestratorDefault | FeeOrigin::OrchestratorClient => 2,
        FeeOrigin::Service => 3,
    }
}

fn owner(charge: &Charge) -> &'static str {
    match charge.kind {
        FeeKind::Platform => "the fee of the platform",
        FeeKind::Protocol => "the fee of this service",
        FeeKind::Contract => "the fee of the contract",
        FeeKind::Orchestrator => "a fee of the orchestrator",
    }
}

#[cfg(test)]
mod tests;
