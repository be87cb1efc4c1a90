//! Calls, spendings and approvals of the fee proxy of Tron.

use super::*;
use crate::domain::{
    paying::{
        ApprovalAmount, Executor, NetworkPrice, PayerBalance, PayerBalances, ResourcePrices,
        charge::{ChargedUnits, FeeBearer, FeeKind},
        fee_proxy::Erc20FeeProxy,
    },
    reference::PaymentReference,
};
use alloy::{
    primitives::{Address as EvmAddress, U256},
    sol_types::SolCall,
};
use proptest::prelude::*;

const PROXY: u8 = 99;
const TOKEN: u8 = 1;

fn address(last: u8) -> Address {
    Address::Tron(EvmAddress::with_last_byte(last))
}

fn charge(kind: FeeKind, receiver: u8, units: U256) -> ChargedUnits {
    ChargedUnits {
        kind,
        bearer: FeeBearer::Payer,
        receiver: address(receiver),
        units,
    }
}

fn leg(units: U256, charges: Vec<ChargedUnits>) -> Leg {
    Leg {
        payee: address(7),
        token: Some(address(TOKEN)),
        resets_allowance: true,
        units,
        reference: PaymentReference([5; 8]),
        charges,
        conversion: None,
    }
}

fn standings(allowance: U256) -> PayerBalances {
    let standing = PayerBalance {
        balance: U256::MAX,
        native_balance: U256::MAX,
        allowance,
        price: NetworkPrice::Resources(ResourcePrices {
            energy_sun: 100,
            bandwidth_sun: 1_000,
        }),
    };
    [(Some(address(TOKEN)), standing)].into()
}

#[test]
fn payments_that_the_proxy_cannot_make_are_refused() {
    let units = U256::from(10);
    let admit = |leg: &Leg| admit_on_tron(address(PROXY), leg).map(|_| ()).unwrap_err();
    let two = [2, 3].map(|receiver| charge(FeeKind::Platform, receiver, U256::ONE));
    assert_eq!(admit(&leg(units, two.to_vec())), BundleError::TooMany);
    let large = vec![charge(FeeKind::Platform, 2, U256::ONE)];
    assert_eq!(admit(&leg(U256::MAX, large)), BundleError::TooLarge);
}

#[test]
fn a_reset_is_never_planned_from_the_symbol_of_a_token() {
    let proxy = admit_on_tron(address(PROXY), &leg(U256::from(10), Vec::new())).unwrap();
    for (allowance, count) in [(0, 1), (9, 1), (10, 0), (11, 0)] {
        let steps = proxy.steps(ApprovalAmount::WhatIsNeeded, &standings(U256::from(allowance)));
        assert_eq!(steps.approvals.len(), count, "{allowance}");
    }
    let steps = proxy.steps(ApprovalAmount::WhatIsNeeded, &PayerBalances::new());
    assert_eq!(steps.approvals.len(), 1, "an unknown allowance");
}

proptest! {
    /// The call pays the amount and the sum of all charges of one receiver. The spending covers both, and the approval
    /// covers the spending.
    #[test]
    fn calls_pay_the_amount_and_the_charges_to_the_unit(
        units in 1_u64..,
        charges in prop::collection::vec(1_u64.., 0..4),
        allowance in any::<u64>(),
        is_exact in any::<bool>(),
    ) {
        let charged = charges.iter().map(|units| charge(FeeKind::Orchestrator, 2, U256::from(*units)));
        let fee: U256 = charges.iter().fold(U256::ZERO, |sum, units| sum + U256::from(*units));
        let total = U256::from(units) + fee;
        let proxy = admit_on_tron(address(PROXY), &leg(U256::from(units), charged.collect())).unwrap();
        let allowing = if is_exact { ApprovalAmount::WhatIsNeeded } else { ApprovalAmount::Everything };
        let steps = proxy.steps(allowing, &standings(U256::from(allowance)));
        prop_assert_eq!(steps.approvals.is_empty(), U256::from(allowance) >= total);
        prop_assert_eq!(steps.payment.to, address(PROXY));
        prop_assert_eq!(steps.payment.value, U256::ZERO);
        let call = Erc20FeeProxy::transferFromWithReferenceAndFeeCall::abi_decode(&steps.payment.calldata).unwrap();
        prop_assert_eq!(call.token, address(TOKEN).bytes());
        prop_assert_eq!(call.to, address(7).bytes());
        prop_assert_eq!((call.amount, call.feeAmount), (U256::from(units), fee));
        let receiver = if charges.is_empty() { EvmAddress::ZERO } else { address(2).bytes() };
        prop_assert_eq!(call.feeAddress, receiver);
        prop_assert_eq!(proxy.spendings().len(), 1);
        prop_assert_eq!(proxy.spendings()[0].units, total);
        let approved = if is_exact { total } else { U256::MAX };
        for approval in &steps.approvals {
            prop_assert_eq!(approval, &crate::domain::paying::approval_step(address(TOKEN), address(PROXY), approved));
        }
        prop_assert!(proxy.work().payment >= PAYMENT_ENERGY);
    }
}
