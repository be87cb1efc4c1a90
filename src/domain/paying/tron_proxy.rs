//! The fee proxy of Tron: a contract for one payment in a token with at most one receiver of charges. Its calls have
//! the same encoding as those of the fee proxy on EVM networks.

use super::{
    ApprovalAmount, BundleError, Executor, Leg, PaidCharge, PayerBalances, PaymentTransaction, PaymentTransactions,
    Spending, StepWork, evm, fee_proxy::payment_step,
};
use crate::domain::{address::Address, network::Network};

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

/// The fee proxy of Tron that executes a payment.
#[derive(Debug, Clone)]
pub struct TronProxy {
    spending: Spending,
    paid: Vec<PaidCharge>,
    payment: PaymentTransaction,
}

impl TronProxy {
    /// Creates the call for a payment. Errors: a payment in the coin or with a conversion, several receivers of
    /// charges, or a sum beyond 256 bits.
    pub fn admit(proxy: Address, leg: &Leg) -> Result<Self, BundleError> {
        if leg.token.is_none() || leg.conversion.is_some() {
            return Err(BundleError::NoContract(Network::Tron));
        }
        let paid = leg.charges.iter().map(|charged| PaidCharge {
            leg: 0,
            charged: *charged,
        });
        Ok(Self {
            payment: payment_step(proxy, leg)?,
            spending: Spending {
                token: leg.token,
                units: leg.total().ok_or(BundleError::TooLarge)?,
                // Whether the token needs a reset shows a simulated approval, not the symbol of the token.
                resets_allowance: false,
            },
            paid: paid.collect(),
        })
    }
}

impl Executor for TronProxy {
    fn contract(&self) -> Address {
        self.payment.to
    }

    fn spendings(&self) -> &[Spending] {
        std::slice::from_ref(&self.spending)
    }

    fn paid(&self) -> &[PaidCharge] {
        &self.paid
    }

    fn work(&self) -> StepWork {
        let fee = if self.paid.is_empty() { 0 } else { FEE_ENERGY };
        StepWork {
            approval: APPROVAL_ENERGY,
            payment: PAYMENT_ENERGY + fee,
        }
    }

    fn steps(&self, allowing: ApprovalAmount, standings: &PayerBalances) -> PaymentTransactions {
        evm::steps(self.spendings(), self.payment.clone(), allowing, standings)
    }
}

#[cfg(test)]
mod tests;
