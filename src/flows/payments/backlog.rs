//! Reads queued ranges of final blocks in parallel with new blocks. A range is queued for an older first block, for a
//! rescan, or for a block that could not be proven in time. Each range proceeds separately, so a failed range does not
//! delay the others.

use super::{
    confirm::{self, CATCHING_UP, ChainProgress},
    lead::{Leadership, Mandate},
    reconcile, watch,
};
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
use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Ranges per step.
const RANGES_PER_STEP: u64 = 4;

/// Longest pause before a range is retried.
const PAUSE_MAX_S: i64 = 300;

/// Speed at which this process reads each range, including pauses and failures.
#[derive(Debug, Default)]
pub struct BacklogSpeeds(Mutex<HashMap<(u64, BacklogReason), BacklogStart>>);

/// Time at which the range was first processed, and its block at that time.
#[derive(Debug, Clone, Copy)]
struct BacklogStart {
    at: Instant,
    next: u64,
}

/// Progress of a range.
#[derive(Debug, PartialEq, Eq)]
struct BacklogSpeed {
    blocks_left: u64,
    blocks_per_s: u64,
    left_s: u64,
}

impl BacklogSpeeds {
    /// Starts measuring a range. A range that was restarted at an earlier block is measured from there.
    fn begin(&self, backlog: &Backlog, now: Instant) {
        let mut begun = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let new = BacklogStart {
            at: now,
            next: backlog.next,
        };
        let known = begun.entry((backlog.end, backlog.reason)).or_insert(new);
        if backlog.next < known.next {
            *known = new;
        }
    }

    /// Records that a range is read up to `read_to`.
    fn advance(&self, backlog: &Backlog, read_to: u64, now: Instant) -> BacklogSpeed {
        let mut begun = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (backlog.end, backlog.reason);
        let since = begun.get(&key).copied().unwrap_or(BacklogStart {
            at: now,
            next: backlog.next,
        });
        let blocks_left = backlog.end.saturating_sub(read_to);
        if blocks_left == 0 {
            begun.remove(&key);
        }
        let read = (read_to + 1).saturating_sub(since.next).max(1);
        let took = now.duration_since(since.at).max(Duration::from_millis(1));
        let took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        BacklogSpeed {
            blocks_left,
            blocks_per_s: read.saturating_mul(1_000) / took_ms,
            left_s: blocks_left.saturating_mul(took_ms) / read / 1_000,
        }
    }
}

/// Processes due ranges up to the newest settled block, as the leader of the network. Returns whether any range made
/// progress. Without effect on a network that is halted or was never followed.
pub async fn run(ctx: &Ctx, chain: &dyn Chain, leadership: &Leadership, rates: &BacklogSpeeds) -> FlowResult<bool> {
    let mandate = &Mandate::Filling(leadership.clone());
    let network = chain.network();
    let cursor = store::cursors::load(ctx.db.reader(), network).await?;
    let Some(cursor) = cursor.filter(|cursor| cursor.halted_reason.is_none()) else {
        return Ok(false);
    };
    let (settled, now) = (cursor.finalized.number, ctx.clock.now());
    let due = store::backlogs::due(ctx.db.reader(), network, settled, now, RANGES_PER_STEP).await?;
    if due.is_empty() {
        return Ok(false);
    }
    let is_awaited = watch::is_awaited(ctx, network).await?;
    let mut has_filled = false;
    for backlog in &due {
        rates.begin(backlog, Instant::now());
        let range = backlog.range();
        let proves_absence = match backlog.reason {
            BacklogReason::Start => is_awaited,
            // The events were missed before, so the result of a single node does not suffice.
            BacklogReason::Rescan | BacklogReason::Rewound => true,
            // The blocks of these ranges are read regardless of event lists.
            BacklogReason::Unproven | BacklogReason::Quarantine => false,
        };
        let (progress, until) = (ChainProgress::Backlog(backlog.clone()), Instant::now() + CATCHING_UP);
        let done = match backlog.reason {
            BacklogReason::Rewound => compare(ctx, chain, mandate, backlog).await,
            _ => confirm::run(ctx, chain, mandate, range, proves_absence, progress, Some(until)).await,
        };
        match done {
            Ok(Some(read_to)) => {
                has_filled = true;
                tell(backlog, read_to, &rates.advance(backlog, read_to, Instant::now()));
            }
            // Another process changed the range: the next step reads its new state.
            Ok(None) => has_filled = true,
            Err(error) => postpone(ctx, mandate, backlog, &error).await?,
        }
    }
    Ok(has_filled)
}

/// Compares the first part of a range with the recorded payments, and then moves the start of the range. After a crash
/// between the two, the comparison is repeated and finds nothing to change.
async fn compare(ctx: &Ctx, chain: &dyn Chain, mandate: &Mandate, backlog: &Backlog) -> FlowResult<Option<u64>> {
    let read_to = reconcile::after_rewind(ctx, chain, mandate, backlog.range()).await?;
    let tx = ctx.db.begin("advance_backlog").await?;
    let is_moved = store::backlogs::advance(&tx, backlog, read_to, ctx.clock.now()).await?;
    mandate.commit(tx).await?;
    Ok(is_moved.then_some(read_to))
}

fn tell(backlog: &Backlog, read_to: u64, pace: &BacklogSpeed) {
    let BacklogSpeed {
        blocks_left,
        blocks_per_s,
        left_s,
    } = pace;
    tracing::info!(network = %backlog.network, reason = backlog.reason.wire(), read_to, blocks_left, blocks_per_s, left_s, "filled in");
}

async fn postpone(ctx: &Ctx, mandate: &Mandate, backlog: &Backlog, error: &FlowError) -> FlowResult<()> {
    tracing::warn!(network = %backlog.network, reason = backlog.reason.wire(), from = backlog.next, failures = backlog.failures + 1, %error, "filling in failed");
    let pause_s = (1_i64 << backlog.failures.min(10)).min(PAUSE_MAX_S);
    let due_at = ctx.clock.now() + TimeDelta::seconds(pause_s);
    let tx = ctx.db.begin("postpone_backlog").await?;
    store::backlogs::postpone(&tx, backlog, due_at).await?;
    mandate.commit(tx).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::network::Network;

    #[test]
    fn the_remaining_time_follows_progress_between_two_polls() {
        let rates = BacklogSpeeds::default();
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let backlog = |next| Backlog {
            network: Network::Sepolia,
            next,
            end: 10_999,
            reason: BacklogReason::Rescan,
            failures: 0,
        };
        rates.begin(&backlog(1_000), at(0));
        let first = rates.advance(&backlog(1_000), 1_499, at(1));
        assert_eq!((first.blocks_left, first.blocks_per_s, first.left_s), (9_500, 500, 19));
        rates.begin(&backlog(1_500), at(99));
        let second = rates.advance(&backlog(1_500), 1_999, at(100));
        assert_eq!(
            (second.blocks_left, second.blocks_per_s, second.left_s),
            (9_000, 10, 900)
        );
        rates.begin(&backlog(0), at(200));
        let again = rates.advance(&backlog(0), 499, at(201));
        assert_eq!(again.blocks_per_s, 500, "restarted at an earlier block");
    }
}
