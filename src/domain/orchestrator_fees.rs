//! Fees of an orchestrator that the payments of a request paid.

use super::wire_text::wire_text;
use alloy::primitives::U256;

wire_text! {
    /// Who bears a fee.
    pub enum FeeBearer {
        /// The payer bears the fee: it is added to the amount.
        Payer = "payer",
        /// The payee bears the fee: it is deducted from the amount.
        Payee = "payee",
    }
}

/// Fees of an orchestrator in token units, by bearer. A request has at most one fee for each bearer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OrchestratorFees {
    /// Units of the fee on top of the amount.
    pub payer: U256,
    /// Units of the fee deducted from the amount.
    pub payee: U256,
}

impl OrchestratorFees {
    /// The units of a bearer.
    pub fn of(&self, bearer: FeeBearer) -> U256 {
        match bearer {
            FeeBearer::Payer => self.payer,
            FeeBearer::Payee => self.payee,
        }
    }

    /// Adds units to the fee of a bearer. A sum beyond 256 bits becomes the largest number.
    pub fn add(&mut self, bearer: FeeBearer, units: U256) {
        let sum = match bearer {
            FeeBearer::Payer => &mut self.payer,
            FeeBearer::Payee => &mut self.payee,
        };
        *sum = sum.saturating_add(units);
    }

    /// The sum of the fees of two payments, by bearer.
    #[must_use]
    pub fn plus(mut self, other: Self) -> Self {
        for bearer in FeeBearer::ALL {
            self.add(bearer, other.of(bearer));
        }
        self
    }

    /// Whether there are none.
    pub fn is_zero(&self) -> bool {
        *self == Self::default()
    }
}
