//! What every payment of a request keeps to, whether or not calldata was asked for.

use super::terms::{Exchange, Terms};
use crate::domain::{
    address::Address,
    amount::Percent,
    conversion::{RateAges, RateBounds},
    currency::{Catalogue, Currency},
    fees::{Base, Fees, ProtocolFee},
};

/// The rates and fees of the payments of a request. They are fixed when it is created: later changes of the catalogue, of
/// settings and of its client ID change them no more. Source: decisions D38.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PriceTerms {
    /// Path and rate age of a conversion on chain; `None` of every other request.
    pub rates: Option<RateBounds>,
    /// What is charged on top: the fee of the client ID that made the request, or of its link, and that of the service.
    pub fees: Fees,
}

/// The settings that price terms are made of.
#[derive(Debug, Clone, Copy)]
pub struct Pricing<'a> {
    /// How old the rates of price feeds may be.
    pub rate_ages: &'a RateAges,
    /// Fee of the service.
    pub protocol_fee: Option<&'a ProtocolFee>,
}

impl PriceTerms {
    /// The price terms of a request that is made now with a client ID that has this fee.
    pub fn of(
        terms: &Terms,
        (invoice, payment): (&Currency, &Currency),
        client_fee: Option<(Percent, Address)>,
        pricing: Pricing<'_>,
        catalogue: &Catalogue,
    ) -> Self {
        let exchange = terms.exchange();
        // A quote is in units of the payment currency.
        let (unit, decimals) = match exchange {
            Exchange::OnChain => (invoice, terms.settlement_decimals(payment)),
            Exchange::Direct | Exchange::Quoted => (payment, payment.decimals),
        };
        let base = Base {
            network: terms.network,
            unit,
            decimals,
        };
        Self {
            rates: match exchange {
                Exchange::OnChain => RateBounds::between(catalogue, pricing.rate_ages, invoice, payment),
                Exchange::Direct | Exchange::Quoted => None,
            },
            fees: Fees::fixed(base, client_fee, pricing.protocol_fee),
        }
    }
}
