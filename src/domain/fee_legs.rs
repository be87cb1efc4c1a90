//! Fees that a transaction pays separately from the payments to which they belong.

use super::{
    address::Address,
    conversion_call::ConversionCall,
    ledger::SettlementUnits,
    paying::charge::FeeLeg,
    payment::{Observation, ProvenTransfer},
};
use alloy::primitives::{Address as EvmAddress, U256, U512};
use std::collections::HashMap;

/// How a payment was made: proxy, token and conversion terms. Conversions with different terms are different ways.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct PaymentWay {
    proxy: Address,
    token: Option<Address>,
    conversion: Option<(Vec<EvmAddress>, U256)>,
}

impl PaymentWay {
    /// The way in which the payment of an event was made; `None` for a conversion whose path cannot be decoded.
    fn of(observed: &Observation, call: Option<&ConversionCall>) -> Option<Self> {
        let conversion = match observed.conversion {
            Some(conversion) => Some((call?.path.clone(), conversion.max_rate_timespan_s)),
            None => None,
        };
        Some(Self {
            proxy: observed.proxy,
            token: observed.token,
            conversion,
        })
    }
}

/// Amount that a receiver got and that no payment has used as a fee yet.
#[derive(Debug, Clone, Copy, Default)]
struct UnusedFee {
    settled: SettlementUnits,
    paid: U256,
}

/// Payments of a transaction whose references belong to no request. They can be fees: a batch pays the fees of one
/// receiver inside its payments, and the fees of every other receiver as such separate payments. One separate payment
/// may cover the fees of several requests. Each of its units counts as a fee only once.
#[derive(Debug, Default)]
pub struct FeeLegs(HashMap<(PaymentWay, Address), UnusedFee>);

impl FeeLegs {
    /// Adds a payment that settles no request.
    pub fn add(&mut self, observed: &Observation, call: Option<&ConversionCall>, proven: &ProvenTransfer) {
        let Some(way) = PaymentWay::of(observed, call) else {
            return;
        };
        let left = self.0.entry((way, observed.payee)).or_default();
        left.settled = left.settled.saturating_add(observed.credit(proven.received_units));
        left.paid = left.paid.saturating_add(proven.received_units);
    }

    /// Amount that a receiver got and that no payment has used as a fee yet, in the settlement units of the request.
    /// Only amounts paid with the same proxy, token and conversion terms as this payment count.
    pub(super) fn left(
        &self,
        payment: &Observation,
        call: Option<&ConversionCall>,
        receiver: Address,
    ) -> SettlementUnits {
        let way = PaymentWay::of(payment, call);
        let left = way.and_then(|way| self.0.get(&(way, receiver)));
        left.map_or(U256::ZERO, |left| left.settled)
    }

    /// Uses at most the wanted amount as a fee of the payment. Returns the used amount in units of the token, or `None`
    /// if nothing is left.
    pub(super) fn take(
        &mut self,
        payment: &Observation,
        call: Option<&ConversionCall>,
        wanted: FeeLeg,
    ) -> Option<FeeLeg> {
        let way = PaymentWay::of(payment, call)?;
        let left = self.0.get_mut(&(way, wanted.receiver))?;
        let taken = wanted.units.min(left.settled);
        if taken.is_zero() {
            return None;
        }
        let paid = U512::from(left.paid) * U512::from(taken) / U512::from(left.settled);
        let paid = U256::checked_from_limbs_slice(paid.as_limbs()).unwrap_or(left.paid);
        left.settled -= taken;
        left.paid = left.paid.saturating_sub(paid);
        Some(FeeLeg {
            receiver: wanted.receiver,
            units: paid,
        })
    }
}
