//! Fills in ranges of final blocks beside new ones: an older start, a rescan, blocks that could not be proven at their
//! turn. Each range goes on by itself; one that fails waits and holds up nothing.

use super::confirm::{self, CATCHING_UP, Progress};
use crate::{
    ctx::Ctx,
    flows::{FlowError, FlowResult},
    ports::chain::Chain,
    store::{
        self,
        backlogs::{Backlog, BacklogReason},
    },
};
use chrono::TimeDelta;
use std::time::Instant;

/// Ranges that a step goes on with.
const RANGES_PER_STEP: u64 = 4;

/// Longest pause before a range is tried again.
const PAUSE_MAX_S: i64 = 300;

/// Goes on with what is due up to the newest settled block; tells whether there was anything. `begun` is when the look at
/// the chain began that this is the last part of: the next look follows at once, so it is what a range waits for.
pub(super) async fn run(
    ctx: &Ctx,
    chain: &dyn Chain,
    settled: u64,
    is_awaited: bool,
    begun: Instant,
) -> FlowResult<bool> {
    let network = chain.network();
    let due = store::backlogs::due(ctx.db.reader(), network, ctx.clock.now(), RANGES_PER_STEP).await?;
    let (mut filled, mut is_overtaken) = (Vec::new(), false);
    for backlog in due.iter().filter(|backlog| backlog.end <= settled) {
        let range = (backlog.next, backlog.end);
        let proves_absence = match backlog.reason {
            BacklogReason::Start => is_awaited,
            // What was missed once is not left to the word of one node again.
            BacklogReason::Rescan => true,
            // Their block is read, whatever a list says.
            BacklogReason::Unproven | BacklogReason::Quarantine => false,
        };
        let (progress, until) = (Progress::Backlog(backlog.clone()), begun + CATCHING_UP);
        match confirm::run(ctx, chain, range, proves_absence, progress, Some(until)).await {
            Ok(Some(read_to)) => filled.push((backlog, read_to)),
            // Somebody else has changed the range: the next look shows how it is now.
            Ok(None) => is_overtaken = true,
            Err(error) => postpone(ctx, backlog, &error).await?,
        }
    }
    for (backlog, read_to) in &filled {
        tell(backlog, *read_to, begun);
    }
    Ok(is_overtaken || !filled.is_empty())
}

fn tell(backlog: &Backlog, read_to: u64, begun: Instant) {
    let (read, left) = (read_to + 1 - backlog.next, backlog.end - read_to);
    let took_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX).max(1);
    let left_s = left.saturating_mul(took_ms) / read.max(1) / 1_000;
    tracing::info!(network = %backlog.network, reason = backlog.reason.wire(), read_to, blocks_left = left, blocks_per_s = read.saturating_mul(1_000) / took_ms, left_s, "filled in");
}

async fn postpone(ctx: &Ctx, backlog: &Backlog, error: &FlowError) -> FlowResult<()> {
    tracing::warn!(network = %backlog.network, reason = backlog.reason.wire(), from = backlog.next, failures = backlog.failures + 1, %error, "filling in failed");
    let pause_s = (1_i64 << backlog.failures.min(10)).min(PAUSE_MAX_S);
    let due_at = ctx.clock.now() + TimeDelta::seconds(pause_s);
    Ok(store::backlogs::postpone(ctx.db.writer(), backlog, due_at).await?)
}
