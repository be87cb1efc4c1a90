//! What a transaction pays to receivers of fees by itself, beside the payments whose fees it is.

use super::{
    address::Address,
    conversion_call::ConversionCall,
    ledger::SettlementUnits,
    paying::charge::FeeLeg,
    payment::{Observation, ProvenTransfer},
};
use alloy::primitives::{Address as EvmAddress, U256, U512};
use std::collections::HashMap;

/// In what and by which contract something is paid. Conversions of other terms are other ones.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Way {
    proxy: Address,
    token: Option<Address>,
    conversion: Option<(Vec<EvmAddress>, U256)>,
}

impl Way {
    /// Of an event; `None` for a conversion whose path cannot be read.
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

/// What is left of what somebody got.
#[derive(Debug, Clone, Copy, Default)]
struct Left {
    settled: SettlementUnits,
    paid: U256,
}

/// What a transaction paid with references of no request, to be counted once. The contract of batches knows one receiver
/// of fees; what others get is such a payment, for one request or for several together.
#[derive(Debug, Default)]
pub struct FeeLegs(HashMap<(Way, Address), Left>);

impl FeeLegs {
    /// Adds a payment that settles no request.
    pub fn add(&mut self, observed: &Observation, call: Option<&ConversionCall>, proven: &ProvenTransfer) {
        let Some(way) = Way::of(observed, call) else {
            return;
        };
        let left = self.0.entry((way, observed.payee)).or_default();
        left.settled = left.settled.saturating_add(observed.credit(proven.received_units));
        left.paid = left.paid.saturating_add(proven.received_units);
    }

    /// What a receiver got the same way as a payment was made, in the units in which that settles its request.
    pub(super) fn left(
        &self,
        payment: &Observation,
        call: Option<&ConversionCall>,
        receiver: Address,
    ) -> SettlementUnits {
        let way = Way::of(payment, call);
        let left = way.and_then(|way| self.0.get(&(way, receiver)));
        left.map_or(U256::ZERO, |left| left.settled)
    }

    /// Takes as much of it, if there is any, as a fee of the payment; returns what was paid, in units of its token.
    pub(super) fn take(
        &mut self,
        payment: &Observation,
        call: Option<&ConversionCall>,
        wanted: FeeLeg,
    ) -> Option<FeeLeg> {
        let way = Way::of(payment, call)?;
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
