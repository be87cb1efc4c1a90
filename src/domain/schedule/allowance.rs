//! The allowance that the recurring payment contract needs from a payer, and the steps that set it.

use super::super::{
    address::Address,
    paying::{PaymentTransaction, approval_step},
};
use alloy::primitives::U256;

/// Amounts that the live schedules of a payer need in one token, and the current allowance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AllowanceNeed {
    /// Units that this schedule needs.
    pub own: U256,
    /// Units that the other live schedules still need.
    pub others: U256,
    /// Current allowance in units.
    pub current: U256,
}

/// The token and the contract that an approval is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ApprovalTarget {
    /// The token.
    pub token: Address,
    /// Contract that gets the allowance.
    pub spender: Address,
    /// Whether the token refuses to change a non-zero allowance to another non-zero one.
    pub resets_allowance: bool,
}

impl AllowanceNeed {
    /// Allowance that all live schedules of the payer need in this token, in units.
    pub fn total(&self) -> U256 {
        self.own.saturating_add(self.others)
    }

    /// Missing allowance in units.
    pub fn missing(&self) -> U256 {
        self.total().saturating_sub(self.current)
    }

    /// Steps that raise the allowance to the need of all live schedules; none when it is sufficient.
    pub fn raising(&self, approved: &ApprovalTarget) -> Vec<PaymentTransaction> {
        if self.missing().is_zero() {
            return Vec::new();
        }
        approved.steps(self.current, self.total())
    }

    /// Steps that lower the allowance after this schedule was cancelled. They revoke at most the need of this schedule,
    /// and keep what the other schedules need.
    pub fn lowering(&self, approved: &ApprovalTarget) -> Vec<PaymentTransaction> {
        let kept = self.current.saturating_sub(self.own).max(self.others).min(self.current);
        if kept == self.current {
            return Vec::new();
        }
        approved.steps(self.current, kept)
    }
}

impl ApprovalTarget {
    fn steps(&self, current: U256, wanted: U256) -> Vec<PaymentTransaction> {
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

    fn need(own: u64, others: u64, current: u64) -> AllowanceNeed {
        AllowanceNeed {
            own: U256::from(own),
            others: U256::from(others),
            current: U256::from(current),
        }
    }

    fn approved(resets_allowance: bool) -> ApprovalTarget {
        ApprovalTarget {
            token: Address::Evm(EvmAddress::with_last_byte(1)),
            spender: Address::Evm(EvmAddress::with_last_byte(2)),
            resets_allowance,
        }
    }

    /// The amounts that the steps approve, in order.
    fn amounts(steps: &[PaymentTransaction]) -> Vec<U256> {
        let amount = |step: &PaymentTransaction| U256::from_be_slice(&step.calldata[step.calldata.len() - 32..]);
        steps.iter().map(amount).collect()
    }

    #[test]
    fn the_allowance_covers_all_live_schedules() {
        let whole = need(60, 40, 30);
        assert_eq!((whole.total(), whole.missing()), (U256::from(100), U256::from(70)));
        assert_eq!(amounts(&whole.raising(&approved(false))), [U256::from(100)]);
        assert_eq!(amounts(&whole.raising(&approved(true))), [U256::ZERO, U256::from(100)]);
        assert_eq!(amounts(&need(60, 40, 0).raising(&approved(true))), [U256::from(100)]);
        assert!(need(60, 40, 100).raising(&approved(true)).is_empty());
        let endless = AllowanceNeed {
            others: U256::MAX,
            ..whole
        };
        assert_eq!(endless.total(), U256::MAX);
    }

    #[test]
    fn cancelling_a_schedule_lowers_the_allowance_by_its_share() {
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
