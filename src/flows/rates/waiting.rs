//! Payments that were quarantined because the rate of their time was unknown.

use crate::{
    ctx::Ctx,
    domain::{
        block_range::BlockRange,
        oddity::{OddReason, QuarantineState},
        pair::Pair,
    },
    flows::FlowResult,
    store::{self, Tx, backlogs::BacklogReason, quarantine::QuarantineFilter},
};
use chrono::{DateTime, Utc};

/// Payments per page.
const PAGE: u64 = 1_000;

/// Queues the blocks of all payments that wait for a rate of the pair, in the transaction that stores the rate.
pub(super) async fn retry(tx: &Tx, ctx: &Ctx, pair: &Pair, now: DateTime<Utc>) -> FlowResult<()> {
    let filter = QuarantineFilter {
        reason: Some(OddReason::RateMissing),
        currencies: Some((pair.invoice.clone(), ctx.catalogue.paid_by(pair))),
        states: vec![QuarantineState::Open, QuarantineState::Retrying],
        ..QuarantineFilter::default()
    };
    let mut after = None;
    loop {
        let page = store::quarantine::list(tx, &filter, after.as_ref(), PAGE).await?;
        for waiting in &page {
            let block = BlockRange::single(waiting.oddity.block_number);
            store::quarantine::set_state(tx, waiting, QuarantineState::Retrying, None, now).await?;
            store::backlogs::push(tx, waiting.oddity.network, block, BacklogReason::Quarantine, now).await?;
        }
        let Some(oldest) = page.into_iter().next_back() else {
            return Ok(());
        };
        after = Some(oldest.id);
    }
}
