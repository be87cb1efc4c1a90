//! Price terms that apply to every payment of a request, whether or not its calldata was issued by the service.

use crate::domain::{
    conversion::{RateAges, RateBounds},
    orchestrator_fees::OrchestratorFees,
    paying::charge::{Charges, ProtocolFee},
};

/// The rates and charges of the payments of a request. They are fixed at creation: later changes to the catalogue, the
/// settings or the client ID do not affect them. Source: decisions D38.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PriceTerms {
    /// Path and rate age of an on-chain conversion; `None` for every other request.
    pub rates: Option<RateBounds>,
    /// Charges of the request: the fee of the client ID that created the request or its link, the fee of the service,
    /// and captured fees of an orchestrator.
    pub charges: Charges,
}

impl PriceTerms {
    /// These terms, with the orchestrator fees reduced by what earlier payments already paid.
    #[must_use]
    pub fn after(&self, paid: OrchestratorFees) -> Self {
        Self {
            rates: self.rates.clone(),
            charges: self.charges.after(paid),
        }
    }
}

/// The settings that determine price terms.
#[derive(Debug, Clone, Copy)]
pub struct Pricing<'a> {
    /// Maximum age of the rates of price feeds.
    pub rate_ages: &'a RateAges,
    /// Fee of the service.
    pub protocol_fee: Option<&'a ProtocolFee>,
}
