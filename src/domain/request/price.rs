//! What every payment of a request keeps to, whether or not calldata was asked for.

use crate::domain::{
    conversion::{RateAges, RateBounds},
    paying::charge::{Charges, ProtocolFee},
};

/// The rates and charges of the payments of a request. They are fixed when it is created: later changes of the catalogue, of
/// settings and of its client ID change them no more. Source: decisions D38.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PriceTerms {
    /// Path and rate age of a conversion on chain; `None` of every other request.
    pub rates: Option<RateBounds>,
    /// What is charged on top: the fee of the client ID that made the request, or of its link, and that of the service.
    pub charges: Charges,
}

/// The settings that price terms are made of.
#[derive(Debug, Clone, Copy)]
pub struct Pricing<'a> {
    /// How old the rates of price feeds may be.
    pub rate_ages: &'a RateAges,
    /// Fee of the service.
    pub protocol_fee: Option<&'a ProtocolFee>,
}
