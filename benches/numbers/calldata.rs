//! Measures how fast payments are encoded in this process: reference and calldata of one token payment with a fee, and
//! of a full batch.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::{Duration, Instant};

use alloy::primitives::{Address as EvmAddress, U256};
use anyhow::{Context, anyhow};
use prs::domain::{
    address::Address,
    amount::Percent,
    ids::RequestId,
    paying::{
        ApprovalAmount, Conversion, Executor, Leg, PayerBalances,
        batch_contract::{BatchContract, BatchTerms},
        charge::{ChargedUnits, FeeBearer, FeeKind},
        fee_proxy::payment_step,
    },
    reference::PaymentReference,
};

use crate::report::{Goal, REPEATS, Row, in_ms, rate_per_s};

/// Number of encodings per second of the reference implementation in JavaScript. Source: rules E.4 (rounded).
const REFERENCE_PER_S: f64 = 5_800.0;

/// Goal for our rate, as a multiple of the reference rate. Source: rules F.17.
const GOAL_RATIO: f64 = 50.0;

/// Number of different requests, so that no encoding can reuse an earlier result.
const REQUESTS: u64 = 64;

/// Number of payments in a full batch, which is the maximum.
const BATCH: u8 = 200;

/// Maximum time to encode the calldata of a full batch, in milliseconds.
const GOAL_BATCH_MS: f64 = 5.0;

/// Duration of one run.
const RUN: Duration = Duration::from_secs(1);

/// Number of requests that are encoded between two readings of the clock.
const ROUNDS_PER_LOOK: usize = 16;

/// Measures how many payments one thread encodes per second. The first run is a warm-up.
pub(crate) fn measure() -> anyhow::Result<Row> {
    let payee = Address::Evm(EvmAddress::repeat_byte(0x5a));
    let requests: Vec<(RequestId, String)> = (0..REQUESTS)
        .map(|seed| {
            let digest = U256::from(seed + 1).wrapping_mul(U256::from(0x9e37_79b9_7f4a_7c15_u64));
            (
                RequestId::from_digest(&digest.to_be_bytes()),
                format!("{:016x}", seed + 1),
            )
        })
        .collect();
    let units = U256::from(1_500_000_u64);
    let percent = Percent::parse("2.5").map_err(|error| anyhow!("{error}"))?;
    let charged = ChargedUnits {
        kind: FeeKind::Platform,
        bearer: FeeBearer::Payer,
        receiver: Address::Evm(EvmAddress::repeat_byte(0xfe)),
        units: percent.of(units),
    };
    let proxy = Address::Evm(EvmAddress::repeat_byte(0x37));
    let mut leg = Leg {
        token: Some(Address::Evm(EvmAddress::repeat_byte(0x70))),
        resets_allowance: false,
        payee,
        units,
        reference: PaymentReference([0; 8]),
        charges: vec![charged],
        conversion: None,
    };
    let mut encode_all = || {
        for (id, salt) in &requests {
            leg.reference = PaymentReference::derive(black_box(id), black_box(salt), &payee);
            let _ = black_box(payment_step(proxy, &leg));
        }
    };
    let mut run = || {
        let started = Instant::now();
        let mut count = 0;
        while started.elapsed() < RUN {
            for _ in 0..ROUNDS_PER_LOOK {
                encode_all();
            }
            count += ROUNDS_PER_LOOK * requests.len();
        }
        rate_per_s(count, started.elapsed())
    };
    run();
    let ours: Vec<f64> = (0..REPEATS).map(|_| run()).collect();
    ours.first().context("no run")?;
    Ok(Row {
        name: "calldata",
        unit: "encodings/s",
        ours,
        baseline_name: "JavaScript reference, published",
        baseline: vec![REFERENCE_PER_S],
        goal: Goal::Ratio(GOAL_RATIO),
    })
}

/// Measures how long one thread takes for the calldata of a full batch: references, fees to two receivers, approvals
/// and the call, for payments of all kinds. The first run is a warm-up.
pub(crate) fn measure_batch() -> anyhow::Result<Row> {
    let address = |last: u8| Address::Evm(EvmAddress::with_last_byte(last));
    let terms = BatchTerms {
        contract: address(250),
        fee_basis_points: 0,
        paths_to_usd: BTreeMap::new(),
    };
    let units = U256::from(1_500_000_u64);
    let charged = |kind: FeeKind, receiver: u8| ChargedUnits {
        kind,
        bearer: FeeBearer::Payer,
        receiver: address(receiver),
        units: units / U256::from(40),
    };
    let charges = [charged(FeeKind::Platform, 251), charged(FeeKind::Protocol, 252)];
    let id = RequestId::from_digest(&U256::MAX.to_be_bytes());
    let salts: Vec<String> = (0..BATCH).map(|seed| format!("{seed:016x}")).collect();
    let leg = |seed: u8, salt: &str| {
        let payee = address(seed);
        let token = (seed % 4 < 2).then(|| address(210 + seed % 3));
        let path = [1, 2, 3].map(EvmAddress::with_last_byte).to_vec();
        Leg {
            token,
            resets_allowance: false,
            payee,
            units,
            reference: PaymentReference::derive(&id, salt, &payee),
            charges: charges.to_vec(),
            conversion: seed.is_multiple_of(2).then(|| Conversion {
                path,
                max_to_spend: units * U256::from(2),
                max_rate_timespan_s: 90_000,
            }),
        }
    };
    let run = || -> anyhow::Result<Duration> {
        let started = Instant::now();
        let legs: Vec<Leg> = (0..BATCH)
            .zip(black_box(&salts))
            .map(|(seed, salt)| leg(seed, salt))
            .collect();
        let batch = BatchContract::admit(&terms, &legs, None)?;
        black_box((
            batch.gas(),
            batch.steps(ApprovalAmount::Everything, &PayerBalances::new()),
        ));
        Ok(started.elapsed())
    };
    run()?;
    let ours = (0..REPEATS).map(|_| run().map(in_ms));
    Ok(Row {
        name: "calldata of 200",
        unit: "ms",
        ours: ours.collect::<anyhow::Result<_>>()?,
        baseline_name: "",
        baseline: Vec::new(),
        goal: Goal::AtMost(GOAL_BATCH_MS),
    })
}
