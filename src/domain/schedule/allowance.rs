//! How much the contract of schedules must be allowed to take from a payer, and the steps that allow it.

use super::super::{
    address::Address,
    paying::{Step, approval_step},
};
use alloy::primitives::U256;

/// What all live schedules of a payer in one token take, beside what is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Need {
    /// Units that the schedule at hand takes.
    pub own: U256,
    /// Units that the other live ones still take.
    pub others: U256,
    /// Units that are allowed.
    pub current: U256,
}

/// What is approved, and how the token takes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Approved {
    /// The token.
    pub token: Address,
    /// Contract that is allowed to take it.
    pub spender: Address,
    /// Whether the token refuses to change a non-zero allowance to another non-zero one.
    pub resets_allowance: bool,
}

impl Need {
    /// Units that have to be allowed for all of them.
    pub fn total(&self) -> U256 {
        self.own.saturating_add(self.others)
    }

    /// Units that are missing.
    pub fn missing(&self) -> U256 {
        self.total().saturating_sub(self.current)
    }

    /// Steps that allow all of them; none when enough is allowed.
    pub fn raising(&self, approved: &Approved) -> Vec<Step> {
        if self.missing().is_zero() {
            return Vec::new();
        }
        approved.steps(self.current, self.total())
    }

    /// Steps that take back what the schedule at hand was allowed, once it is cancelled: never more than that, and never
    /// what the others need.
    pub fn lowering(&self, approved: &Approved) -> Vec<Step> {
        let kept = self.current.saturating_sub(self.own).max(self.others).min(self.current);
        if kept == self.current {
            return Vec::new();
        }
        approved.steps(self.current, kept)
    }
}

impl Approved {
    fn steps(&self, current: U256, wanted: U256) -> Vec<Step> {
        let mut steps = Vec::new();
        if self.resets_allowance && !current.is_zero() && !wanted.is_zero() {
            steps.push(approval_step(self.token, self.spender, U256::ZERO));
        }
        steps.push(approval_step(self.token, self.spender, wanted));
        steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy::primitives::Address as EvmAddress;

    fn need(own: u64, others: u64, current: u64) -> Need {
        Need {
            own: U256::from(own),
            others: U256::from(others),
            current: U256::from(current),
        }
    }

    fn approved(resets_allowance: bool) -> Approved {
        Approved {
            token: Address::Evm(EvmAddress::with_last_byte(1)),
            spender: Address::Evm(EvmAddress::with_last_byte(2)),
            resets_allowance,
        }
    }

    /// Amounts that the steps approve, in their order.
    fn amounts(steps: &[Step]) -> Vec<U256> {
        let amount = |step: &Step| U256::from_be_slice(&step.calldata[step.calldata.len() - 32..]);
        steps.iter().map(amount).collect()
    }

    #[test]
    fn all_live_schedules_are_allowed_together() {
        let whole = need(60, 40, 30);
        assert_eq!((whole.total(), whole.missing()), (U256::from(100), U256::from(70)));
        assert_eq!(amounts(&whole.raising(&approved(false))), [U256::from(100)]);
        assert_eq!(amounts(&whole.raising(&approved(true))), [U256::ZERO, U256::from(100)]);
        assert_eq!(amounts(&need(60, 40, 0).raising(&approved(true))), [U256::from(100)]);
        assert!(need(60, 40, 100).raising(&approved(true)).is_empty());
        let endless = Need {
            others: U256::MAX,
            ..whole
        };
        assert_eq!(endless.total(), U256::MAX);
    }

    #[test]
    fn a_cancelled_schedule_gives_back_its_own_and_leaves_the_others_theirs() {
        for (need, expected) in [
            (need(60, 40, 100), vec![U256::from(40)]),
            (need(60, 0, 60), vec![U256::ZERO]),
            (need(60, 0, 1_000), vec![U256::from(940)]),
            (need(60, 50, 100), vec![U256::from(50)]),
            (need(60, 50, 40), vec![]),
            (need(60, 0, 0), vec![]),
        ] {
            assert_eq!(amounts(&need.lowering(&approved(false))), expected, "{need:?}");
        }
        assert_eq!(
            amounts(&need(60, 40, 100).lowering(&approved(true))),
            [U256::ZERO, U256::from(40)]
        );
    }
}
