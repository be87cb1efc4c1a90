//! Approvals, shared by all contracts that spend allowances, and their gas on EVM networks.

use super::{ApprovalAmount, PayerBalances, PaymentTransaction, PaymentTransactions, Spending};
use crate::domain::address::Address;
use alloy::{primitives::U256, sol, sol_types::SolCall};

sol! {
    interface Erc20 {
        function approve(address spender, uint256 amount);
    }
}

/// Gas that one approval may need. The figure is measured and rounded up.
///
/// Source: rules G.2 (47,206 measured).
pub(super) const APPROVAL_GAS: u64 = 60_000;

/// Approves `spender` for `units` of `token`.
pub fn approval_step(token: Address, spender: Address, units: U256) -> PaymentTransaction {
    let call = Erc20::approveCall {
        spender: spender.bytes(),
        amount: units,
    };
    PaymentTransaction {
        to: token,
        calldata: call.abi_encode(),
        value: U256::ZERO,
    }
}

/// The transactions of a payer: one approval for each token whose allowance is insufficient or unknown, then the
/// payment. If the token needs it, a reset to zero precedes the approval. Source: rules P.2; rules G.2 (6); rules G.5
/// (4).
pub(super) fn steps(
    spendings: &[Spending],
    payment: PaymentTransaction,
    allowing: ApprovalAmount,
    standings: &PayerBalances,
) -> PaymentTransactions {
    let spender = payment.to;
    let mut approvals = Vec::new();
    for spending in spendings {
        let Some(token) = spending.token else { continue };
        let allowance = standings.get(&Some(token)).map(|standing| standing.allowance);
        if allowance.is_some_and(|allowance| allowance >= spending.units) {
            continue;
        }
        // Such a token may refuse to change an unknown allowance. If the allowance is zero, the reset changes nothing.
        if spending.resets_allowance && allowance.is_none_or(|allowance| !allowance.is_zero()) {
            approvals.push(approval_step(token, spender, U256::ZERO));
        }
        let units = match allowing {
            ApprovalAmount::Everything => U256::MAX,
            ApprovalAmount::WhatIsNeeded => spending.units,
        };
        approvals.push(approval_step(token, spender, units));
    }
    PaymentTransactions { approvals, payment }
}
