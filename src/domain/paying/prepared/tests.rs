//! Estimates, limits and transactions that wallets only sign.

use super::*;
use crate::domain::paying::approval_step;
use alloy::primitives::{Address as EvmAddress, B256};
use proptest::prelude::*;
use serde_json::Value;

const PRICES: ResourcePrices = ResourcePrices {
    energy_sun: 100,
    bandwidth_sun: 1_000,
};

const LIMITS: FeeLimits = FeeLimits {
    approval_sun: 100_000_000,
    payment_sun: 300_000_000,
};

const USUAL: StepWork = StepWork {
    approval: 100_000,
    payment: 150_000,
};

fn address(last: u8) -> Address {
    Address::Tron(EvmAddress::with_last_byte(last))
}

fn steps(approvals: usize) -> PaymentTransactions {
    let approval = approval_step(address(1), address(2), U256::from(5));
    PaymentTransactions {
        approvals: vec![approval; approvals],
        payment: PaymentTransaction {
            to: address(2),
            calldata: vec![7; 260],
            value: U256::ZERO,
        },
    }
}

fn facts(simulated: &SimulatedEnergy) -> PreparationFacts<'_> {
    PreparationFacts {
        account: address(3),
        resources: PayerResources::NONE,
        prices: PRICES,
        simulated,
        usual: USUAL,
        limits: LIMITS,
        reference: Some(ReferencePoint {
            block: ReferenceBlock::of_block(&B256::repeat_byte(9)),
            time_ms: 1_790_000_000_000,
        }),
    }
}

#[test]
fn prepared_transactions_are_byte_equal_to_the_vectors() {
    let vectors = include_str!("../../../../tests/vectors/tron-transactions.json");
    let vectors: Value = serde_json::from_str(vectors).unwrap();
    for case in vectors["cases"].as_array().unwrap() {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let header = &case["blockHeader"];
        let fixed = |name: &str| hex::decode(text(&header[name])).unwrap();
        let payment = PaymentTransaction {
            to: Address::parse(&text(&case["contract"])).unwrap(),
            calldata: hex::decode(text(&case["data"])).unwrap(),
            value: U256::ZERO,
        };
        let steps = PaymentTransactions {
            approvals: Vec::new(),
            payment,
        };
        let simulated = SimulatedEnergy::default();
        let limit = case["feeLimit"].as_u64().unwrap();
        let facts = PreparationFacts {
            account: Address::parse(&text(&case["owner"])).unwrap(),
            limits: FeeLimits {
                payment_sun: limit,
                ..LIMITS
            },
            reference: Some(ReferencePoint {
                block: ReferenceBlock {
                    number_bytes: fixed("ref_block_bytes").try_into().unwrap(),
                    hash_bytes: fixed("ref_block_hash").try_into().unwrap(),
                },
                time_ms: header["timestamp"].as_u64().unwrap(),
            }),
            ..facts(&simulated)
        };
        let prepared = PreparedPayment::new(&steps, facts).unwrap();
        let [transaction] = prepared.unsigned.as_slice() else {
            panic!("one transaction");
        };
        assert_eq!(hex::encode(transaction.encode()), text(&case["raw_data_hex"]));
        assert_eq!(hex::encode(transaction.tx_id()), text(&case["txID"]));
        // The transaction with its signature, and room for its result.
        let raw_bytes = u64::try_from(transaction.encode().len()).unwrap();
        assert_eq!(prepared.payment.bandwidth, raw_bytes + 134);
    }
}

#[test]
fn the_bandwidth_of_a_usdt_transfer_is_the_published_one() {
    let transfer = PaymentTransaction {
        to: address(1),
        calldata: vec![7; 68],
        value: U256::ZERO,
    };
    let steps = PaymentTransactions {
        approvals: Vec::new(),
        payment: transfer,
    };
    let simulated = SimulatedEnergy::default();
    let limited = PreparationFacts {
        limits: FeeLimits {
            payment_sun: 100_000_000,
            ..LIMITS
        },
        ..facts(&simulated)
    };
    let prepared = PreparedPayment::new(&steps, limited).unwrap();
    assert_eq!(prepared.payment.bandwidth, 345);
}

#[test]
fn without_a_payer_there_is_nothing_to_sign_and_the_bandwidth_is_the_same() {
    let simulated = SimulatedEnergy::default();
    let signed = PreparedPayment::new(&steps(1), facts(&simulated)).unwrap();
    let without = PreparationFacts {
        reference: None,
        ..facts(&simulated)
    };
    let estimated = PreparedPayment::new(&steps(1), without).unwrap();
    assert_eq!((signed.unsigned.len(), estimated.unsigned.len()), (2, 0));
    assert_eq!(
        (&estimated.approvals, estimated.payment),
        (&signed.approvals, signed.payment)
    );
}

#[test]
fn own_energy_and_bandwidth_reduce_the_fees_in_execution_order() {
    let simulated = SimulatedEnergy {
        approvals: vec![Some(30_000)],
        payment: Some(90_000),
    };
    let approval_bytes = 345;
    let payment_bytes = {
        let prepared = PreparedPayment::new(&steps(1), facts(&simulated)).unwrap();
        assert_eq!(prepared.approvals[0].bandwidth, approval_bytes);
        prepared.payment.bandwidth
    };
    let fees = |energy: u64, staked_bandwidth: u64, free_bandwidth: u64| {
        let facts = PreparationFacts {
            resources: PayerResources {
                energy,
                staked_bandwidth,
                free_bandwidth,
                ..PayerResources::NONE
            },
            ..facts(&simulated)
        };
        let prepared = PreparedPayment::new(&steps(1), facts).unwrap();
        assert_eq!(prepared.approval_resources().energy, 30_000, "own energy included");
        (prepared.approvals[0].fee_sun, prepared.payment.fee_sun)
    };
    let paid = payment_bytes * 1_000;
    assert_eq!(fees(0, 0, 0), (3_000_000 + 345_000, 9_000_000 + paid));
    assert_eq!(fees(40_000, 0, 0), (345_000, 8_000_000 + paid));
    assert_eq!(fees(0, 0, 600), (3_000_000, 9_000_000 + paid), "not enough for both");
    assert_eq!(
        fees(0, 344, 344),
        (3_000_000 + 345_000, 9_000_000 + paid),
        "kinds are not combined"
    );
    assert_eq!(fees(200_000, 345, payment_bytes), (0, 0));
}

#[test]
fn an_estimate_above_a_limit_is_refused_with_both_figures() {
    let simulated = SimulatedEnergy {
        approvals: vec![Some(1_000_001)],
        payment: Some(3_000_000),
    };
    let error = PreparedPayment::new(&steps(1), facts(&simulated)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "The energy of an approval on tron costs an estimated 100.0001 TRX, and this service allows at most 100 TRX \
         for it: retry when energy is cheaper, or ask the operator to raise chains.tron.approval_fee_limit_trx"
    );
    let rich = PreparationFacts {
        resources: PayerResources {
            energy: u64::MAX,
            ..PayerResources::NONE
        },
        ..facts(&simulated)
    };
    assert!(
        PreparedPayment::new(&steps(1), rich).is_err(),
        "the chain limits own energy too"
    );
    let cheaper = SimulatedEnergy {
        approvals: vec![Some(1_000_000)],
        payment: Some(3_000_000),
    };
    assert!(
        PreparedPayment::new(&steps(1), facts(&cheaper)).is_ok(),
        "exactly the limits"
    );
    let payment = SimulatedEnergy {
        payment: Some(3_000_001),
        ..cheaper
    };
    let error = PreparedPayment::new(&steps(1), facts(&payment))
        .unwrap_err()
        .to_string();
    assert!(error.contains("300.0001 TRX") && error.contains("300 TRX"), "{error}");
}

#[test]
fn reasons_of_contracts_are_shown_without_special_characters() {
    let flaw = PayerFlaw::payment("paused\u{202e}\n\"now\"");
    assert!(flaw.to_string().contains("(paused\"now\")"), "{flaw}");
    let flaw = PayerFlaw::approval("\u{1F4A5}");
    assert!(flaw.to_string().contains("(no reason given)"), "{flaw}");
    let flaw = PayerFlaw::payment(&"x".repeat(1_000));
    assert!(flaw.to_string().len() < 300);
}

proptest! {
    /// No combination of figures overflows. A fee never exceeds the price of all resources, and resources of the
    /// account never increase it. Each transaction has the limit of its kind and the call of its step.
    #[test]
    fn fees_never_exceed_the_price_of_all_resources(
        energies in any::<[Option<u64>; 3]>(),
        resources in any::<[u64; 3]>(),
        prices in any::<[u32; 2]>(),
        approvals in 0_usize..=2,
    ) {
        let simulated = SimulatedEnergy {
            approvals: energies[..approvals].to_vec(),
            payment: energies[2],
        };
        let prices = ResourcePrices { energy_sun: prices[0].into(), bandwidth_sun: prices[1].into() };
        let limits = FeeLimits { approval_sun: u64::MAX, payment_sun: u64::MAX - 1 };
        let [energy, staked_bandwidth, free_bandwidth] = resources;
        let own = PayerResources { energy, staked_bandwidth, free_bandwidth, ..PayerResources::NONE };
        let poor = PreparationFacts { prices, limits, ..facts(&simulated) };
        let steps = steps(approvals);
        let Ok(most) = PreparedPayment::new(&steps, poor) else { return Ok(()) };
        let prepared = PreparedPayment::new(&steps, PreparationFacts { resources: own, ..poor }).unwrap();
        let pairs = prepared.approvals.iter().chain([&prepared.payment]);
        for (estimate, most) in pairs.zip(most.approvals.iter().chain([&most.payment])) {
            prop_assert!(estimate.fee_sun <= most.fee_sun);
            prop_assert_eq!((estimate.energy, estimate.bandwidth), (most.energy, most.bandwidth));
        }
        prop_assert!(prepared.costs().total() <= most.costs().total());
        prop_assert_eq!(prepared.unsigned.len(), approvals + 1);
        for (transaction, step) in prepared.unsigned.iter().zip(steps.iter()) {
            prop_assert_eq!(&transaction.call, &owner_call(step, address(3)));
            prop_assert_eq!(transaction.expiration_ms - transaction.timestamp_ms, LIFETIME_MS);
        }
        let fee_limits: Vec<u64> = prepared.unsigned.iter().map(|transaction| transaction.fee_limit_sun).collect();
        prop_assert_eq!(fee_limits.last(), Some(&limits.payment_sun));
        prop_assert!(fee_limits[..approvals].iter().all(|limit| *limit == limits.approval_sun));
    }
}
