//! Follows a signed transaction until a final block contains it, it has to be sent again, or another transaction used
//! its nonce.

use super::{
    due::hindered,
    outcome::{advance, give_up},
    round::{NO_HIGHER, ORPHANED, Round, Sendings},
};
use crate::{
    domain::{
        relay::{RelayState, RelayTransaction, UnsignedTransaction},
        schedule::Schedule,
    },
    flows::{Fault, FlowResult},
    ports::relay::Receipt,
    store,
};
use alloy::primitives::B256;
use anyhow::anyhow;
use chrono::{DateTime, Utc};

/// Checks one transaction; returns whether anything changed.
///
/// A transaction has one bid, which is a signed version, for each price. A credited payment in one of its bids proves
/// that the transaction paid. A payment by another account with the same reference proves nothing.
///
/// A receipt is the claim of one node, so it is checked in both of its uses. If it says that the payment reverted, the
/// payment is simulated again, which detects a false claim. If it says that the payment succeeded and nothing was
/// credited, the block in the receipt is proven first. A transaction is followed until its own end, regardless of its
/// payment, because later transactions wait for its nonce.
pub(super) async fn follow(round: &Round<'_>, transaction: &RelayTransaction, sendings: &Sendings) -> FlowResult<bool> {
    let conn = round.ctx.db.reader();
    let schedule = store::schedules::find(conn, &transaction.platform, &transaction.schedule).await?;
    let missing = || {
        Fault(anyhow!(
            "a relayer transaction belongs to recurring payment {}, which does not exist",
            transaction.schedule
        ))
    };
    let schedule = schedule.ok_or_else(missing)?;
    let found = round.execution(&schedule, transaction.number).await?;
    let (execution, request) = found.ok_or_else(missing)?;
    let newest_first: Vec<B256> = transaction.bids.iter().rev().map(|bid| bid.tx_hash).collect();
    if let Some(paid_at) = round.paid_at(&request, &newest_first).await? {
        return succeed(round, &schedule, transaction, paid_at).await;
    }
    match round.relay.receipt(&newest_first).await? {
        Some(receipt) if receipt.block_number > round.settled => Ok(false),
        Some(receipt) if receipt.succeeded => moved_nothing(round, &schedule, transaction, receipt).await,
        Some(_) if is_over(&schedule, transaction) => end(round, &schedule, transaction, RelayState::Reverted).await,
        Some(_) => hindered(round, &schedule, &execution, &request, Some(transaction)).await,
        None => send_again(round, &schedule, transaction, sendings).await,
    }
}

/// Whether the schedule already counts the payment of this transaction as executed, so that another transaction
/// executed it.
fn is_over(schedule: &Schedule, transaction: &RelayTransaction) -> bool {
    schedule.executed >= transaction.number
}

/// Handles a transaction that a final block contains and that paid.
async fn succeed(
    round: &Round<'_>,
    schedule: &Schedule,
    transaction: &RelayTransaction,
    paid_at: DateTime<Utc>,
) -> FlowResult<bool> {
    if is_over(schedule, transaction) {
        return end(round, schedule, transaction, RelayState::Succeeded).await;
    }
    advance(
        round,
        schedule,
        Some(paid_at),
        Some((transaction, RelayState::Succeeded)),
    )
    .await?;
    Ok(true)
}

/// Records the end of a transaction that does not change its schedule.
async fn end(
    round: &Round<'_>,
    schedule: &Schedule,
    transaction: &RelayTransaction,
    state: RelayState,
) -> FlowResult<bool> {
    give_up(round, transaction, state, schedule, schedule).await?;
    Ok(true)
}

/// Handles a transaction that succeeded although the token transferred nothing, so that nothing was credited. The
/// contract counts such a payment as executed, so the schedule also counts it.
async fn moved_nothing(
    round: &Round<'_>,
    schedule: &Schedule,
    transaction: &RelayTransaction,
    receipt: Receipt,
) -> FlowResult<bool> {
    let block = round.chain.settled(receipt.block_number).await?;
    let mut proofs = block.transactions.iter();
    if !proofs.any(|proof| proof.tx_hash == receipt.tx_hash && proof.succeeded) {
        return Ok(false);
    }
    tracing::warn!(
        schedule = %schedule.id, tx_hash = %receipt.tx_hash,
        "a recurring payment was executed but credited nothing"
    );
    succeed(round, schedule, transaction, block.block.time).await
}

/// Sends again a transaction that no block contains. If all later transactions wait for this one, it is sent at a
/// higher price.
async fn send_again(
    round: &Round<'_>,
    schedule: &Schedule,
    transaction: &RelayTransaction,
    sendings: &Sendings,
) -> FlowResult<bool> {
    let (ctx, now, rules) = (round.ctx, round.now, &round.rules);
    let (counted, is_former) = (round.counted(transaction).await?, round.is_former(transaction));
    let Some(newest) = transaction.bids.last() else {
        return Err(Fault(anyhow!(
            "the relayer transaction with nonce {} has no signed version",
            transaction.nonce
        ))
        .into());
    };
    if counted > transaction.nonce || (is_former && now - newest.signed_at >= ORPHANED) {
        // The count and the receipt may come from different nodes, and the node that returned no receipt may be behind.
        if now - newest.signed_at < rules.patience {
            return Ok(false);
        }
        if is_over(schedule, transaction) {
            return end(round, schedule, transaction, RelayState::Lost).await;
        }
        let nonce = transaction.nonce;
        tracing::warn!(
            schedule = %schedule.id, nonce,
            "the transaction of a recurring payment can no longer be included in a block; the payment starts again"
        );
        let again = Schedule {
            wake_at: schedule.has_payment_in_flight().then_some(now),
            ..schedule.clone()
        };
        give_up(round, transaction, RelayState::Lost, schedule, &again).await?;
        return Ok(true);
    }
    let is_first = counted == transaction.nonce && !is_former;
    let price = transaction
        .next_price(&round.account.market, now, rules)
        .filter(|_| is_first);
    if price.is_none() && is_first && transaction.is_stuck(now, rules) {
        round.note(NO_HIGHER);
    }
    if let Some(price) = price {
        let unsigned = UnsignedTransaction {
            nonce: transaction.nonce,
            step: transaction.step.clone(),
            gas_limit: transaction.gas_limit,
            price,
        };
        let bid = round.relay.sign(&unsigned, now).map_err(Fault)?;
        let tx = ctx.db.begin("raise_bid").await?;
        store::relays::add_bid(&tx, transaction, &bid).await?;
        round.leadership.commit(tx).await?;
        round.send(bid.tx_hash, &bid.raw, sendings).await;
        return Ok(true);
    }
    if sendings.is_due(newest.tx_hash, now) {
        round.send(newest.tx_hash, &newest.raw, sendings).await;
    }
    Ok(false)
}
