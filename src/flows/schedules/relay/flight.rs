//! Follows a transaction that was signed: until a final block holds it, until it has to be sent again, or until another
//! one took its place.

use super::{
    due::hindered,
    outcome::{advance, give_up},
    round::{NO_HIGHER, ORPHANED, Round, Sendings},
};
use crate::{
    domain::{
        relay::{RelayState, RelayTransaction, Unsigned},
        schedule::Schedule,
    },
    flows::{Fault, FlowResult},
    ports::relay::Receipt,
    store,
};
use alloy::primitives::B256;
use anyhow::anyhow;
use chrono::{DateTime, Utc};

/// Looks at one transaction; tells whether anything changed.
///
/// A credited payment in one of its bids proves that it paid; one of somebody else, who knows the reference, proves nothing.
/// A receipt is the word of one node: it tells that a payment was refused, which the contract contradicts at the next
/// rehearsal if it is not true, and where to look for the proof of one that moved nothing. A transaction is followed until
/// it has an end of its own, whatever becomes of its payment: those behind it wait for its nonce.
pub(super) async fn follow(round: &Round<'_>, transaction: &RelayTransaction, sendings: &Sendings) -> FlowResult<bool> {
    let conn = round.ctx.db.reader();
    let schedule = store::schedules::find(conn, &transaction.platform, &transaction.schedule).await?;
    let missing = || {
        Fault(anyhow!(
            "recurring payment {} of a transaction is not there",
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

/// Whether the payment of a transaction was executed by another one.
fn is_over(schedule: &Schedule, transaction: &RelayTransaction) -> bool {
    schedule.executed >= transaction.number
}

/// A final block holds the transaction, and it paid.
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

/// Notes the end of a transaction that changes nothing about its schedule.
async fn end(
    round: &Round<'_>,
    schedule: &Schedule,
    transaction: &RelayTransaction,
    state: RelayState,
) -> FlowResult<bool> {
    give_up(round, transaction, state, schedule, schedule).await?;
    Ok(true)
}

/// A payment that its block proves and that credits nothing, because the token moved nothing: the contract counts it, so
/// the schedule does.
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
    tracing::warn!(schedule = %schedule.id, tx_hash = %receipt.tx_hash, "a payment was executed and credited nothing");
    succeed(round, schedule, transaction, block.block.time).await
}

/// Hands a transaction that no block holds to a node again, at a higher price when it stands in the way of all others.
async fn send_again(
    round: &Round<'_>,
    schedule: &Schedule,
    transaction: &RelayTransaction,
    sendings: &Sendings,
) -> FlowResult<bool> {
    let (ctx, now, rules) = (round.ctx, round.now, &round.rules);
    let (counted, is_former) = (round.counted(transaction).await?, round.is_former(transaction));
    let Some(newest) = transaction.bids.last() else {
        return Err(Fault(anyhow!("transaction {} has no bid", transaction.nonce)).into());
    };
    if counted > transaction.nonce || (is_former && now - newest.signed_at >= ORPHANED) {
        // The node that counts may be ahead of the one that knows receipts.
        if now - newest.signed_at < rules.patience {
            return Ok(false);
        }
        if is_over(schedule, transaction) {
            return end(round, schedule, transaction, RelayState::Lost).await;
        }
        let nonce = transaction.nonce;
        tracing::warn!(schedule = %schedule.id, nonce, "no block will take the transaction of a payment, which begins anew");
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
        let unsigned = Unsigned {
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
