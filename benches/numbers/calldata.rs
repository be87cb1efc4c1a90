//! Payments encoded in process: reference and calldata of one token payment with a fee.

use std::hint::black_box;
use std::time::{Duration, Instant};

use alloy::primitives::{Address as EvmAddress, U256};
use anyhow::{Context, anyhow};
use prs::domain::{
    address::Address,
    amount::Percent,
    calldata::{PaymentPlan, PlatformFee},
    ids::RequestId,
    reference::PaymentReference,
};

use crate::REPEATS;
use crate::report::{Goal, Row, rate_per_s};

/// What the JavaScript reference encodes in one second. Source: rules E.4 (rounded).
const REFERENCE_PER_S: f64 = 5_800.0;

/// How many times as fast as the reference we want to be. Source: rules F.17.
const GOAL_RATIO: f64 = 50.0;

/// Different requests, so that no result can be reused.
const REQUESTS: u64 = 64;

/// How long one run takes.
const RUN: Duration = Duration::from_secs(1);

/// Requests encoded between two looks at the clock.
const ROUNDS_PER_LOOK: usize = 16;

/// Measures encodings on one thread; the first run only warms up.
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
    let fee = PlatformFee {
        percent,
        address: Address::Evm(EvmAddress::repeat_byte(0xfe)),
        units: percent.of(units),
    };
    let mut plan = PaymentPlan {
        proxy: Address::Evm(EvmAddress::repeat_byte(0x37)),
        token: Some(Address::Evm(EvmAddress::repeat_byte(0x70))),
        resets_allowance: false,
        payee,
        units,
        reference: PaymentReference([0; 8]),
        fee: Some(fee),
        conversion: None,
    };
    let mut encode_all = || {
        for (id, salt) in &requests {
            plan.reference = PaymentReference::derive(black_box(id), black_box(salt), &payee);
            black_box(plan.payment_step());
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
