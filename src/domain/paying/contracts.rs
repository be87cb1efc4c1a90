//! The payment contracts of a network, and the choice between them. Code for networks that pay in another way belongs
//! here.

use super::{
    Bundle, BundleError, Executor, Leg,
    batch_contract::{BatchContract, BatchTerms, admit_networks},
    fee_proxy::FeeProxy,
};
use crate::domain::{
    address::Address,
    currency::{Catalogue, ContractKind, CurrencyFilter},
    network::Network,
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
                Box::new(FeeProxy::admit(self.fee_proxy(leg)?, leg)?)
            }
        })
    }

    fn known_batch_contract(self) -> Option<Address> {
        let kind = ContractKind::BatchConversionPayments;
        self.catalogue.default_contract(self.network, kind)
    }
}
