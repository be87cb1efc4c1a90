//! Receivers of charges that a network can pay.

use super::*;
use crate::domain::{
    amount::Percent,
    paying::charge::{CapturedFee, FeeBearer},
};
use alloy::primitives::{Address as EvmAddress, U256};

fn address(last: u8) -> Address {
    Address::Tron(EvmAddress::with_last_byte(last))
}

fn rate() -> Percent {
    Percent::from_basis_points(100).unwrap()
}

fn platform(source: FeeOrigin, receiver: u8) -> Charge {
    Charge::platform(source, rate(), address(receiver))
}

fn protocol(receiver: u8) -> Charge {
    Charge::protocol(rate(), address(receiver), None)
}

fn orchestrator(receiver: u8) -> Charge {
    Charge {
        kind: FeeKind::Orchestrator,
        bearer: FeeBearer::Payee,
        captured: Some(CapturedFee::unpaid(U256::from(100), U256::from(1))),
        ..platform(FeeOrigin::OrchestratorDefault, receiver)
    }
}

fn refusal(network: Network, charges: &[Charge]) -> Option<Refusal> {
    check_receivers(network, &charges.iter().copied().collect()).err()
}

#[test]
fn one_receiver_of_charges_is_allowed_on_tron() {
    for charges in [
        vec![],
        vec![protocol(1)],
        vec![platform(FeeOrigin::Call, 1)],
        vec![platform(FeeOrigin::ClientId, 1), protocol(1), orchestrator(1)],
    ] {
        assert_eq!(refusal(Network::Tron, &charges), None, "{charges:?}");
    }
}

#[test]
fn several_receivers_are_allowed_on_evm_networks() {
    let charges = [platform(FeeOrigin::Call, 1), protocol(2), orchestrator(3)];
    assert_eq!(refusal(Network::Base, &charges), None);
}

#[test]
fn the_fee_of_the_call_is_named_before_the_other_fees() {
    let other = address(2);
    let charges = [orchestrator(3), platform(FeeOrigin::Call, 1), protocol(2)];
    let refused = refusal(Network::Tron, &charges).unwrap();
    assert_eq!(refused.fields[0].field, "feeAddress");
    let named = platform(FeeOrigin::Call, 1);
    let refused = refusal(Network::Tron, &[named, protocol(2)]).unwrap();
    let expected = format!(
        "must be {other}: a payment on tron can pay fees to one receiver only, and the fee of this service goes to \
         this one"
    );
    assert_eq!(refused.fields[0].message, expected);
}

#[test]
fn the_fee_of_the_client_id_or_the_orchestrator_is_named_otherwise() {
    let of_client = [protocol(2), orchestrator(3), platform(FeeOrigin::ClientId, 1)];
    for (charges, start) in [
        (of_client.as_slice(), "feeAddress of the client ID must be T"),
        (
            &[protocol(2), orchestrator(3)],
            "tronRecipientAddress of the orchestrator's fee config must be T",
        ),
        (
            &[orchestrator(1), orchestrator(3)],
            "tronRecipientAddress of the orchestrator's fee config must be T",
        ),
    ] {
        let refused = refusal(Network::Tron, charges).unwrap();
        assert!(refused.fields.is_empty());
        assert!(refused.message.starts_with(start), "{}", refused.message);
    }
}
