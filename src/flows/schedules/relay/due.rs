//! Begins a payment that is due: its request, a rehearsal, a signed transaction, and only then the sending.

use super::{
    counts,
    outcome::{Failure, advance, expire, fail, pass},
    round::{Round, Sendings, TOO_DEAR},
};
use crate::{
    domain::{
        paying::Step,
        permit::Permit,
        relay::{Bid, Circumstances, Hindrance, Price, RelayTransaction, Unsigned, gas_limit, hindrance},
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

/// How far the next payment of a schedule came before it needs a place among the transactions of the account.
pub(super) enum Rehearsed {
    /// It goes no further for now; tells whether anything changed.
    Ended(bool),
    /// The chain would execute it.
    Ready(Box<Ready>),
}

/// A payment that the chain would execute.
pub(super) struct Ready {
    execution: Execution,
    request: Request,
    step: Step,
    gas_limit: u64,
}

/// Begins the next payment of a schedule, up to its rehearsal.
pub(super) async fn rehearse(round: &Round<'_>, schedule: &Schedule) -> FlowResult<Rehearsed> {
    let Some(number) = schedule.next_number() else {
        return Ok(Rehearsed::Ended(false));
    };
    let (execution, request) = match round.execution(schedule, number).await? {
        Some(found) => found,
        None => open(round, schedule, number).await?,
    };
    // A transaction that was given up may have paid after all.
    let hashes = store::relays::hashes_of(round.ctx.db.reader(), schedule, number).await?;
    if let Some(paid_at) = round.paid_at(&request, &hashes).await? {
        advance(round, schedule, Some(paid_at), None).await?;
        return Ok(Rehearsed::Ended(true));
    }
    if schedule.is_expired(round.now) {
        if let Some(has_moved) = counts::align(round, schedule, &request, None).await? {
            return Ok(Rehearsed::Ended(has_moved));
        }
        expire(round, schedule, &execution, &request).await?;
        return Ok(Rehearsed::Ended(true));
    }
    let unsigned = || Fault(anyhow!("recurring payment {} is due and not signed", schedule.id));
    let signature = schedule.signature.as_ref().ok_or_else(unsigned)?;
    let step = schedule.permit.trigger_step(signature, number, request.reference);
    match round.relay.rehearse(&step).await {
        Ok(gas) => {
            crate::fail_at("relay", "rehearsed");
            Ok(Rehearsed::Ready(Box::new(Ready {
                execution,
                request,
                step,
                gas_limit: gas_limit(gas),
            })))
        }
        Err(ChainError::Reverted(reason)) => {
            tracing::info!(schedule = %schedule.id, number, reason, "the chain refuses a payment");
            let has_moved = hindered(round, schedule, &execution, &request, None).await?;
            Ok(Rehearsed::Ended(has_moved))
        }
        Err(error) => Err(error.into()),
    }
}

/// Makes the request of a payment, so that its reference is stored before anything carries it.
async fn open(round: &Round<'_>, schedule: &Schedule, number: u8) -> FlowResult<(Execution, Request)> {
    let ctx = round.ctx;
    let missing = || {
        Fault(anyhow!(
            "the first payment of recurring payment {} is not there",
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

/// Signs and stores the transaction of a payment, then sends it; tells whether anything changed.
pub(super) async fn sign(
    round: &Round<'_>,
    schedule: &Schedule,
    ready: Ready,
    sendings: &Sendings,
) -> FlowResult<bool> {
    let Ready {
        execution,
        request,
        step,
        gas_limit,
    } = ready;
    let (ctx, network) = (round.ctx, schedule.network);
    let Some(price) = Price::of(&round.account.market, round.rules.max_fee) else {
        return Err(round.waits_for(TOO_DEAR));
    };
    if !round.reserve(price.cost(gas_limit)) {
        let account = round.relay.address();
        let sentence = format!("the relayer {account} has too few coins for gas on {network}: send it some");
        return Err(round.waits_for(&sentence));
    }
    let nonce = round.free_nonce().await?;
    let unsigned = Unsigned {
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

/// Finds out why the chain refuses a payment, and notes what follows; `refused` is the transaction that it refused in a
/// block. Tells whether anything changed.
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
    let payers = payers.ok_or_else(|| Fault(anyhow!("nobody can be asked about payers on {network}")))?;
    let state = round.contract(contract).await?;
    let circumstances = Circumstances {
        is_admitted: state.is_admitted,
        is_paused: state.is_paused,
        chain_time_s: state.time_s,
        standing: payers.standing(subscriber, Some(token), contract).await?,
    };
    let (code, sentence) = match hindrance(&schedule.permit, execution.number, &circumstances) {
        Hindrance::Passing(why) => return pass(round, schedule, refused, why).await,
        Hindrance::Expired if refused.is_none() => {
            expire(round, schedule, execution, request).await?;
            return Ok(true);
        }
        Hindrance::Expired => ("permit_expired", PERMIT_EXPIRED),
        Hindrance::Failed(code, sentence) => (code, sentence),
    };
    let failure = Failure {
        code,
        sentence,
        transaction: refused,
    };
    fail(round, schedule, execution, request, &failure).await?;
    Ok(true)
}
