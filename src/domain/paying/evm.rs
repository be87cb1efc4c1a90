//! What all contracts of EVM networks have in common: allowances of tokens, and gas.

use super::{Allowing, Costs, NetworkPrice, Spending, Standings, Step, Steps};
use crate::domain::address::Address;
use alloy::{primitives::U256, sol, sol_types::SolCall};

sol! {
    interface Erc20 {
        function approve(address spender, uint256 amount);
    }
}

/// Gas that one approval may need; rounded up from measured figures.
///
/// Source: rules G.2 (47,206 measured).
const APPROVAL_GAS: u64 = 60_000;

/// Allows `spender` to move `units` of `token`.
pub fn approval_step(token: Address, spender: Address, units: U256) -> Step {
    let call = Erc20::approveCall {
        spender: spender.bytes(),
        amount: units,
    };
    Step {
        to: token,
        calldata: call.abi_encode(),
        value: U256::ZERO,
    }
}

/// One approval for each token whose allowance is not enough or not known, after a reset where the token needs one, and then
/// the payment. Source: rules P.2; rules G.2 (6); rules G.5 (4).
pub(super) fn steps(spendings: &[Spending], payment: Step, allowing: Allowing, standings: &Standings) -> Steps {
    let spender = payment.to;
    let mut approvals = Vec::new();
    for spending in spendings {
        let Some(token) = spending.token else { continue };
        let allowance = standings.get(&Some(token)).map(|standing| standing.allowance);
        if allowance.is_some_and(|allowance| allowance >= spending.units) {
            continue;
        }
        // An unknown allowance may be one that such a token refuses to change; without one, the reset changes nothing.
        if spending.resets_allowance && allowance.is_none_or(|allowance| !allowance.is_zero()) {
            approvals.push(approval_step(token, spender, U256::ZERO));
        }
        let units = match allowing {
            Allowing::Everything => U256::MAX,
            Allowing::WhatIsNeeded => spending.units,
        };
        approvals.push(approval_step(token, spender, units));
    }
    Steps { approvals, payment }
}

/// What so many approvals and a payment of so much gas cost.
pub(super) fn costs(approvals: usize, payment_gas: u64, price: NetworkPrice) -> Costs {
    let NetworkPrice::Gas(price) = price;
    let approvals = u64::try_from(approvals).unwrap_or(u64::MAX);
    let of = |gas: u64| U256::from(gas).saturating_mul(price);
    Costs {
        approvals: of(approvals.saturating_mul(APPROVAL_GAS)),
        payment: of(payment_gas),
    }
}
