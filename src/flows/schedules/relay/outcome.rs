//! The commits at the end of a payment: executed, failed, given up, or past its permit.

use super::round::{PASSING, Round};
use crate::{
    domain::{
        event::{ChainTransaction, Event, PaymentFailed},
        relay::{RelayState, RelayTransaction},
        request::Request,
        schedule::{Execution, PERMIT_EXPIRED, Schedule, ScheduleStatus},
    },
    flows::{FlowError, FlowResult, publish_all, schedules::changed_meanwhile},
    store::{self, Tx},
};
use anyhow::anyhow;
use chrono::{DateTime, Utc};

/// Why a payment failed.
pub(super) struct Failure<'a> {
    /// As a code.
    pub(super) code: &'static str,
    /// For people.
    pub(super) sentence: &'static str,
    /// The transaction that the chain refused in a block.
    pub(super) transaction: Option<&'a RelayTransaction>,
}

/// Notes that a payment was executed for good, and what became of the transaction that was looked at; the next payment is
/// due in its time.
pub(super) async fn advance(
    round: &Round<'_>,
    schedule: &Schedule,
    paid_at: Option<DateTime<Utc>>,
    transaction: Option<(&RelayTransaction, RelayState)>,
) -> FlowResult<()> {
    go_to(
        round,
        "advance_schedule",
        schedule,
        &schedule.advanced(paid_at),
        transaction,
    )
    .await
}

/// Notes that the chain took payments of a schedule back, so that the contract has counted only so many.
pub(super) async fn take_back(
    round: &Round<'_>,
    schedule: &Schedule,
    count: u8,
    transaction: Option<(&RelayTransaction, RelayState)>,
) -> FlowResult<()> {
    go_to(
        round,
        "take_back_payments",
        schedule,
        &schedule.taken_back(count),
        transaction,
    )
    .await
}

/// Notes that a payment failed and tells it; the payer of a schedule that was cancelled owes nothing.
pub(super) async fn fail(
    round: &Round<'_>,
    schedule: &Schedule,
    execution: &Execution,
    request: &Request,
    failure: &Failure<'_>,
) -> FlowResult<()> {
    let after = schedule.failed(failure.sentence, round.now, &round.ctx.schedules.retries);
    end(round, schedule, &after, execution, request, failure).await
}

/// Notes and tells that the permit of a schedule has ended.
pub(super) async fn expire(
    round: &Round<'_>,
    schedule: &Schedule,
    execution: &Execution,
    request: &Request,
) -> FlowResult<()> {
    let failure = Failure {
        code: "permit_expired",
        sentence: PERMIT_EXPIRED,
        transaction: None,
    };
    end(round, schedule, &schedule.expired(), execution, request, &failure).await
}

async fn end(
    round: &Round<'_>,
    schedule: &Schedule,
    after: &Schedule,
    execution: &Execution,
    request: &Request,
    failure: &Failure<'_>,
) -> FlowResult<()> {
    let ctx = round.ctx;
    let failed = Execution {
        failures: execution.failures.saturating_add(1),
        ..execution.clone()
    };
    let hash = |transaction: &RelayTransaction| transaction.bids.last().map(|bid| bid.tx_hash.to_string());
    let hash = failure.transaction.and_then(hash);
    let event = Event::PaymentFailed(Box::new(PaymentFailed {
        request: request.clone(),
        reason: failure.code.to_owned(),
        message: Some(failure.sentence.to_owned()),
        execution: failed.failures,
        recurring_payment: Some(schedule.id.0.clone()),
        transaction: hash.map(|hash| ChainTransaction {
            network: schedule.network,
            hash,
        }),
        at: round.now,
    }));
    let tx = ctx.db.begin("fail_execution").await?;
    let refused = failure
        .transaction
        .map(|transaction| (transaction, RelayState::Reverted));
    settle(&tx, schedule, refused).await?;
    replace(&tx, schedule, after).await?;
    store::schedules::note_failure(&tx, &failed).await?;
    if schedule.status == ScheduleStatus::Active {
        publish_all(ctx, &tx, &[event]).await?;
    }
    round.leadership.commit(tx).await?;
    ctx.due.notify_one();
    Ok(())
}

/// Notes that a transaction will not pay, without a word to anybody: the payment begins anew.
pub(super) async fn give_up(
    round: &Round<'_>,
    transaction: &RelayTransaction,
    state: RelayState,
    schedule: &Schedule,
    again: &Schedule,
) -> FlowResult<()> {
    go_to(
        round,
        "give_up_transaction",
        schedule,
        again,
        Some((transaction, state)),
    )
    .await
}

/// Tries again a little later what is no fault of the payer; tells whether anything changed.
pub(super) async fn pass(
    round: &Round<'_>,
    schedule: &Schedule,
    refused: Option<&RelayTransaction>,
    why: &'static str,
) -> FlowResult<bool> {
    let Some(transaction) = refused else {
        return Err(round.waits_for(why));
    };
    tracing::warn!(schedule = %schedule.id, why, "a payment was refused in a block and is tried again");
    let again = Schedule {
        wake_at: schedule.has_payment_in_flight().then(|| round.now + PASSING),
        ..schedule.clone()
    };
    give_up(round, transaction, RelayState::Reverted, schedule, &again).await?;
    Ok(true)
}

/// Puts a transaction in the place of one that no block will take, for the same payment.
pub(super) async fn take_place(round: &Round<'_>, lost: &RelayTransaction, with: &RelayTransaction) -> FlowResult<()> {
    let tx = round.ctx.db.begin("move_transaction").await?;
    store::relays::insert(&tx, with, round.now).await?;
    if !store::relays::settle(&tx, lost, RelayState::Lost).await? {
        let sentence = format!("transaction {} of the relayer changed meanwhile", lost.nonce);
        return Err(FlowError::NotYet(anyhow!(sentence)));
    }
    round.leadership.commit(tx).await
}

async fn go_to(
    round: &Round<'_>,
    name: &'static str,
    schedule: &Schedule,
    after: &Schedule,
    transaction: Option<(&RelayTransaction, RelayState)>,
) -> FlowResult<()> {
    let tx = round.ctx.db.begin(name).await?;
    settle(&tx, schedule, transaction).await?;
    crate::fail_at(name, "settled");
    replace(&tx, schedule, after).await?;
    round.leadership.commit(tx).await
}

async fn settle(tx: &Tx, schedule: &Schedule, transaction: Option<(&RelayTransaction, RelayState)>) -> FlowResult<()> {
    if let Some((transaction, state)) = transaction
        && !store::relays::settle(tx, transaction, state).await?
    {
        return Err(changed_meanwhile(schedule));
    }
    Ok(())
}

async fn replace(tx: &Tx, from: &Schedule, to: &Schedule) -> FlowResult<()> {
    match store::schedules::replace(tx, from, to).await? {
        true => Ok(()),
        false => Err(changed_meanwhile(from)),
    }
}
