//! The fee proxy on Tron. Its calls have the same encoding as on EVM networks, and cost energy instead of gas.

use super::{BundleError, Leg, StepWork, fee_proxy::FeeProxy};
use crate::domain::address::Address;

/// Energy that is assumed for an approval that cannot be simulated: a new entry of the token (20,000) and its code
/// (2,600), with the penalty.
///
/// Computed, not measured on the chain. Tokens in high demand need additional energy. Public figures for a transfer of
/// USDT are 64,300 to a payee who holds the token and 130,300 to another one. A new entry costs 15,000 more than a
/// change, so the penalty makes energy of USDT cost 4.4 times as much.
const APPROVAL_ENERGY: u64 = 100_000;

/// Energy that is assumed for a payment that cannot be simulated, because the allowance is missing. It includes a payee
/// who never held the token: 130,300 for the transfer; 22,000 for the change of the allowance (5,000, with the
/// penalty); and at most 11,000 for the code of the proxy, which the local chain measures as the difference between a
/// payment and a transfer.
const PAYMENT_ENERGY: u64 = 170_000;

/// Energy that is assumed for the fee in such a payment, whose receiver never held the token: a new entry, two changes
/// of 5,000 and the code of the token, with the penalty.
const FEE_ENERGY: u64 = 140_000;

/// Creates the call of the fee proxy on Tron for a payment. Errors: several receivers of charges, or a sum beyond 256
/// bits.
pub fn admit_on_tron(proxy: Address, leg: &Leg) -> Result<FeeProxy, BundleError> {
    let fee = if leg.charges.is_empty() { 0 } else { FEE_ENERGY };
    let work = StepWork {
        approval: APPROVAL_ENERGY,
        payment: PAYMENT_ENERGY + fee,
    };
    let leg = Leg {
        // A simulated approval shows whether the token needs a reset; its symbol does not.
        resets_allowance: false,
        ..leg.clone()
    };
    FeeProxy::admit_with(proxy, &leg, work)
}

#[cfg(test)]
mod tests;
