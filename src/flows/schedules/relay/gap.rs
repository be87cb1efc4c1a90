//! Closes a gap in front of the transactions in flight: no block takes them before every place before them is used.
//!
//! A gap is there when nodes counted too many transactions while one was signed, or when one before them was given up. The
//! contract counts the payments of a permit, so one that has two places is executed once.

use super::{
    outcome,
    round::{Round, Sendings},
};
use crate::{
    domain::relay::{Price, RelayTransaction, Unsigned},
    flows::{Fault, FlowResult},
    store,
};

/// Puts the first transaction in flight where the chain goes on; tells whether it was moved.
///
/// Nothing happens before it was stuck for a while and while nodes count differently: one of them may be behind.
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
                "the chain misses a transaction before the first one in line; it is sent again"
            );
            round.send(newest.tx_hash, &newest.raw, sendings).await;
        }
        return Ok(false);
    }
    let Some(price) = Price::of(&account.market, round.rules.max_fee) else {
        return Ok(false);
    };
    let unsigned = Unsigned {
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
        "the first transaction in line has a place that the chain does not come to; its payment is signed for the next one"
    );
    outcome::take_place(round, first, &moved).await?;
    round.send(bid.tx_hash, &bid.raw, sendings).await;
    Ok(true)
}
