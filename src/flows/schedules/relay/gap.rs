//! Closes a gap between the next nonce of the account on the chain and the nonces of the transactions in flight. No
//! block includes these transactions until all earlier nonces are used.
//!
//! A gap appears when nodes counted too many transactions while a transaction was signed, or when an earlier
//! transaction was abandoned. A payment that was signed with two nonces is executed once, because the contract counts
//! the payments of a permit.

use super::{
    outcome,
    round::{Round, Sendings},
};
use crate::{
    domain::relay::{GasPrice, RelayTransaction, UnsignedTransaction},
    flows::{Fault, FlowResult},
    store,
};

/// Moves the first transaction in flight to the next nonce of the chain; returns whether it was moved.
///
/// Nothing happens until the transaction has been stuck for a while. Nothing happens either while nodes return
/// different counts, because one of them may be behind.
pub(super) async fn close(round: &Round<'_>, pending: &[RelayTransaction], sendings: &Sendings) -> FlowResult<bool> {
    let (ctx, account, now) = (round.ctx, &round.account, round.now);
    let Some(first) = pending.first() else {
        return Ok(false);
    };
    let (in_line, counted) = (first.nonce, account.nonce);
    if counted >= in_line || !account.is_agreed || !first.is_stuck(now, &round.rules) {
        return Ok(false);
    }
    let network = round.chain.network();
    let before = store::relays::find(ctx.db.reader(), network, first.relayer, counted).await?;
    if let Some(newest) = before.as_ref().and_then(|before| before.bids.last()) {
        if sendings.is_due(newest.tx_hash, now) {
            tracing::warn!(
                %network, in_line, counted,
                "the chain lacks a transaction that precedes the first pending one; the service sends the missing \
                 transaction again"
            );
            round.send(newest.tx_hash, &newest.raw, sendings).await;
        }
        return Ok(false);
    }
    let Some(price) = GasPrice::of(&account.market, round.rules.max_fee) else {
        return Ok(false);
    };
    let unsigned = UnsignedTransaction {
        nonce: counted,
        step: first.step.clone(),
        gas_limit: first.gas_limit,
        price,
    };
    let bid = round.relay.sign(&unsigned, now).map_err(Fault)?;
    let moved = RelayTransaction {
        nonce: counted,
        bids: vec![bid.clone()],
        ..first.clone()
    };
    tracing::warn!(
        %network, in_line, counted,
        "the nonce of the first pending transaction is too high; the service signs its payment again with the next \
         free nonce"
    );
    outcome::take_place(round, first, &moved).await?;
    round.send(bid.tx_hash, &bid.raw, sendings).await;
    Ok(true)
}
