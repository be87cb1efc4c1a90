//! The commits at the end of a payment: it was executed, it failed, it was abandoned, or its permit expired.

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
pub(super) struct PaymentFailure<'a> {
    /// Error code.
    pub(super) code: &'static str,
    /// Message.
    pub(super) sentence: &'static str,
    /// The transaction that reverted in a block.
    pub(super) transaction: Option<&'a RelayTransaction>,
}

/// Records a final executed payment and the state of the checked transaction; schedules the next payment.
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

/// Records that a reorganisation removed payments of a schedule, so that the contract counts only `count`.
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

/// Records a failed payment, and sends its event if the schedule is active. The payer of a cancelled schedule owes
/// nothing, so no event is sent.
pub(super) async fn fail(
    round: &Round<'_>,
    schedule: &Schedule,
    execution: &Execution,
    request: &Request,
    failure: &PaymentFailure<'_>,
) -> FlowResult<()> {
    let after = schedule.failed(failure.sentence, round.now, &round.ctx.schedules.retries);
    end(round, schedule, &after, execution, request, failure).await
}

/// Records that the permit of a schedule has expired, and sends the event about the failed payment if the schedule is
/// active.
pub(super) async fn expire(
    round: &Round<'_>,
    schedule: &Schedule,
    execution: &Execution,
    request: &Request,
) -> FlowResult<()> {
    let failure = PaymentFailure {
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
    failure: &PaymentFailure<'_>,
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

/// Records that a transaction will not pay, without an event. The payment starts again.
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

/// Postpones a payment to a retry shortly after a failure that the payer did not cause; returns whether anything
/// changed.
pub(super) async fn pass(
    round: &Round<'_>,
    schedule: &Schedule,
    refused: Option<&RelayTransaction>,
    why: &'static str,
) -> FlowResult<bool> {
    let Some(transaction) = refused else {
        return Err(round.waits_for(why));
    };
    tracing::warn!(schedule = %schedule.id, why, "a recurring payment reverted in a block and will be retried");
    let again = Schedule {
        wake_at: schedule.has_payment_in_flight().then(|| round.now + PASSING),
        ..schedule.clone()
    };
    give_up(round, transaction, RelayState::Reverted, schedule, &again).await?;
    Ok(true)
}

/// Replaces a transaction that no block will include by another transaction for the same payment.
pub(super) async fn take_place(round: &Round<'_>, lost: &RelayTransaction, with: &RelayTransaction) -> FlowResult<()> {
    let tx = round.ctx.db.begin("move_transaction").await?;
    store::relays::insert(&tx, with, round.now).await?;
    if !store::relays::settle(&tx, lost, RelayState::Lost).await? {
        let sentence = format!("transaction {} of the relayer changed concurrently", lost.nonce);
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
    if store::schedules::replace(tx, from, to).await? {
        Ok(())
    } else {
        Err(changed_meanwhile(from))
    }
}
