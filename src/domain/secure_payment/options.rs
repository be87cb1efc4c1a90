//! From which chains and in which tokens a wallet could pay, and how long a chain that is silent is left alone.

use super::intent::PaymentChain;
use alloy::primitives::U256;
use std::time::Duration;

/// Failures in a row after which a chain is left alone.
const FAILURES_MAX: u32 = 3;

/// How long it is left alone.
const PAUSE: Duration = Duration::from_secs(15);

/// What a wallet holds of one token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PaymentOption {
    /// Chain.
    pub chain: PaymentChain,
    /// Symbol.
    pub token: String,
    /// Fraction digits of its units.
    pub decimals: u8,
    /// Units that the wallet holds.
    pub balance: U256,
    /// Units that it needs.
    pub needed: U256,
}

impl PaymentOption {
    /// Units that are not there.
    pub fn missing(&self) -> U256 {
        self.needed.saturating_sub(self.balance)
    }
}

/// Whether a chain is asked, by the outcomes of the last questions of payment pages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rest {
    failures: u32,
    until: Option<Duration>,
}

impl Rest {
    /// Whether it may be asked at a reading of the steady clock.
    pub fn is_over(&self, now: Duration) -> bool {
        self.until.is_none_or(|until| now >= until)
    }

    /// After a question; one that fails after a pause begins the next one at once.
    #[must_use]
    pub fn after(self, is_answered: bool, now: Duration) -> Self {
        if is_answered {
            return Self::default();
        }
        let failures = self.failures.saturating_add(1);
        Self {
            failures,
            until: (failures >= FAILURES_MAX).then_some(now + PAUSE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_chain_is_left_alone_and_one_answer_ends_that() {
        let second = Duration::from_secs;
        let failed = |rest: Rest, at| rest.after(false, second(at));
        let twice = failed(failed(Rest::default(), 0), 1);
        assert!(twice.is_over(second(1)));
        let resting = failed(twice, 2);
        assert!(!resting.is_over(second(16)));
        assert!(resting.is_over(second(17)));
        assert!(!failed(resting, 17).is_over(second(31)));
        assert_eq!(resting.after(true, second(17)), Rest::default());
    }
}
