//! Starts a due payment: creates its request, simulates it, signs and stores the transaction, and only then sends it.

use super::{
    counts,
    outcome::{PaymentFailure, advance, expire, fail, pass},
    round::{Round, Sendings, TOO_DEAR},
};
use crate::{
    domain::{
        paying::PaymentTransaction,
        permit::Permit,
        relay::{
            Bid, ExecutionObstacle, GasPrice, RefusalFacts, RelayTransaction, UnsignedTransaction, gas_limit, hindrance,
        },
        request::{Request, plan::FreshRequest},
        schedule::{Execution, PERMIT_EXPIRED, Schedule},
    },
    flows::{
        Fault, FlowResult,
        requests::create::{DRAWS_MAX, collided, fresh},
        schedules::changed_meanwhile,
    },
    ports::chain::ChainError,
    store::{self, StoreError},
};
use anyhow::anyhow;

/// Result of preparing and simulating the next payment of a schedule, before a nonce of the account is assigned to it.
pub(super) enum RehearsedPayment {
    /// The payment cannot be sent in this pass. The value is whether anything changed.
    Ended(bool),
    /// The chain would execute it.
    Ready(Box<ExecutablePayment>),
}

/// A payment that the chain would execute.
pub(super) struct ExecutablePayment {
    execution: Execution,
    request: Request,
    step: PaymentTransaction,
    gas_limit: u64,
}

/// Starts the next payment of a schedule, up to its simulation.
pub(super) async fn rehearse(round: &Round<'_>, schedule: &Schedule) -> FlowResult<RehearsedPayment> {
    let Some(number) = schedule.next_number() else {
        return Ok(RehearsedPayment::Ended(false));
    };
    let (execution, request) = match round.execution(schedule, number).await? {
        Some(found) => found,
        None => open(round, schedule, number).await?,
    };
    // A transaction that was abandoned earlier may have executed this payment after all.
    let hashes = store::relays::hashes_of(round.ctx.db.reader(), schedule, number).await?;
    if let Some(paid_at) = round.paid_at(&request, &hashes).await? {
        advance(round, schedule, Some(paid_at), None).await?;
        return Ok(RehearsedPayment::Ended(true));
    }
    if schedule.is_expired(round.now) {
        if let Some(has_moved) = counts::align(round, schedule, &request, None).await? {
            return Ok(RehearsedPayment::Ended(has_moved));
        }
        expire(round, schedule, &execution, &request).await?;
        return Ok(RehearsedPayment::Ended(true));
    }
    let unsigned = || {
        Fault(anyhow!(
            "recurring payment {} is due, but its payer has not signed it",
            schedule.id
        ))
    };
    let signature = schedule.signature.as_ref().ok_or_else(unsigned)?;
    let step = schedule.permit.trigger_step(signature, number, request.reference);
    match round.relay.rehearse(&step).await {
        Ok(gas) => {
            crate::fail_at("relay", "rehearsed");
            Ok(RehearsedPayment::Ready(Box::new(ExecutablePayment {
                execution,
                request,
                step,
                gas_limit: gas_limit(gas),
            })))
        }
        Err(ChainError::Reverted(reason)) => {
            tracing::info!(schedule = %schedule.id, number, reason, "the chain rejects a recurring payment");
            let has_moved = hindered(round, schedule, &execution, &request, None).await?;
            Ok(RehearsedPayment::Ended(has_moved))
        }
        Err(error) => Err(error.into()),
    }
}

/// Creates the request of a payment, so that its reference is stored before a transaction uses it.
async fn open(round: &Round<'_>, schedule: &Schedule, number: u8) -> FlowResult<(Execution, Request)> {
    let ctx = round.ctx;
    let missing = || {
        Fault(anyhow!(
            "the first payment of recurring payment {} is missing",
            schedule.id
        ))
    };
    let (_, first) = round.execution(schedule, 1).await?.ok_or_else(missing)?;
    let mut handed = store::handed_out::of_requests(ctx.db.reader(), &[&first]).await?;
    let handed = handed.remove(&first.row).unwrap_or_default();
    for _ in 0..DRAWS_MAX {
        let fresh = FreshRequest {
            now: round.now,
            ..fresh(ctx)
        };
        let request = first.again(&fresh);
        let execution = Execution {
            schedule: schedule.id.clone(),
            platform: schedule.origin.platform.clone(),
            number,
            request: request.row.clone(),
            request_id: request.id.clone(),
            failures: 0,
            created_at: round.now,
        };
        let tx = ctx.db.begin("open_execution").await?;
        match store::requests::insert(&tx, &request).await {
            // Another request of the payee has the same reference: draw a new salt.
            Err(StoreError::Conflict(store::REQUEST_REFERENCE)) => continue,
            other => other?,
        }
        let kept: Vec<_> = handed.iter().map(|handed| (&request, handed)).collect();
        store::handed_out::keep(&tx, first.origin.client.as_ref(), &kept, round.now).await?;
        crate::fail_at("open_execution", "request_inserted");
        store::schedules::insert_execution(&tx, &execution).await?;
        round.leadership.commit(tx).await?;
        return Ok((execution, request));
    }
    Err(collided())
}

/// Signs and stores the transaction of a payment, then sends it; returns whether anything changed.
pub(super) async fn sign(
    round: &Round<'_>,
    schedule: &Schedule,
    ready: ExecutablePayment,
    sendings: &Sendings,
) -> FlowResult<bool> {
    let ExecutablePayment {
        execution,
        request,
        step,
        gas_limit,
    } = ready;
    let (ctx, network) = (round.ctx, schedule.network);
    let Some(price) = GasPrice::of(&round.account.market, round.rules.max_fee) else {
        return Err(round.waits_for(TOO_DEAR));
    };
    if !round.reserve(price.cost(gas_limit)) {
        let account = round.relay.address();
        let sentence = format!("the relayer {account} has too few coins for gas on {network}: fund it");
        return Err(round.waits_for(&sentence));
    }
    let nonce = round.free_nonce().await?;
    let unsigned = UnsignedTransaction {
        nonce,
        step: step.clone(),
        gas_limit,
        price,
    };
    let bid = round.relay.sign(&unsigned, round.now).map_err(Fault)?;
    crate::fail_at("relay", "signed");
    let Bid { tx_hash, raw, .. } = bid.clone();
    let transaction = RelayTransaction {
        network,
        relayer: round.relay.address(),
        nonce,
        platform: schedule.origin.platform.clone(),
        schedule: schedule.id.clone(),
        number: execution.number,
        step,
        gas_limit,
        bids: vec![bid],
    };
    let tx = ctx.db.begin("sign_execution").await?;
    store::relays::insert(&tx, &transaction, round.now).await?;
    crate::fail_at("sign_execution", "inserted");
    store::requests::set_listening(&tx, &[&request]).await?;
    if !store::schedules::replace(&tx, schedule, &schedule.in_flight()).await? {
        return Err(changed_meanwhile(schedule));
    }
    round.leadership.commit(tx).await?;
    round.send(tx_hash, &raw, sendings).await;
    Ok(true)
}

/// Finds out why the chain rejects a recurring payment, and records the consequence. `refused` is the transaction that
/// reverted, if the payment was rejected in a block and not in a simulation. Returns whether anything changed.
pub(super) async fn hindered(
    round: &Round<'_>,
    schedule: &Schedule,
    execution: &Execution,
    request: &Request,
    refused: Option<&RelayTransaction>,
) -> FlowResult<bool> {
    if let Some(has_moved) = counts::align(round, schedule, request, refused).await? {
        return Ok(has_moved);
    }
    let Permit {
        subscriber,
        token,
        contract,
        ..
    } = schedule.permit;
    let network = schedule.network;
    let payers = round.ctx.partners.chains.standings.get(&network);
    let payers = payers.ok_or_else(|| Fault(anyhow!("no node is configured for payer lookups on {network}")))?;
    let state = round.contract(contract).await?;
    let circumstances = RefusalFacts {
        is_admitted: state.is_admitted,
        is_paused: state.is_paused,
        chain_time_s: state.time_s,
        standing: payers.standing(subscriber, Some(token), contract).await?,
    };
    let (code, sentence) = match hindrance(&schedule.permit, execution.number, &circumstances) {
        ExecutionObstacle::Passing(why) => return pass(round, schedule, refused, why).await,
        ExecutionObstacle::Expired if refused.is_none() => {
            expire(round, schedule, execution, request).await?;
            return Ok(true);
        }
        ExecutionObstacle::Expired => ("permit_expired", PERMIT_EXPIRED),
        ExecutionObstacle::Failed(code, sentence) => (code, sentence),
    };
    let failure = PaymentFailure {
        code,
        sentence,
        transaction: refused,
    };
    fail(round, schedule, execution, request, &failure).await?;
    Ok(true)
}
