//! Fills in ranges of final blocks beside new ones: an older start, a rescan, blocks that could not be proven at their
//! turn. Each range goes on by itself; one that fails waits and holds up nothing.

use super::{
    confirm::{self, CATCHING_UP, Progress},
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

/// Ranges that a step goes on with.
const RANGES_PER_STEP: u64 = 4;

/// Longest pause before a range is tried again.
const PAUSE_MAX_S: i64 = 300;

/// How fast this process fills in each range, pauses and failures included.
#[derive(Debug, Default)]
pub struct Rates(Mutex<HashMap<(u64, BacklogReason), Begun>>);

/// When a range was first gone on with, and at which block.
#[derive(Debug, Clone, Copy)]
struct Begun {
    at: Instant,
    next: u64,
}

/// How far a range is filled in.
#[derive(Debug, PartialEq, Eq)]
struct Pace {
    blocks_left: u64,
    blocks_per_s: u64,
    left_s: u64,
}

impl Rates {
    /// A range is gone on with. One that was begun again at an earlier block is measured anew.
    fn begin(&self, backlog: &Backlog, now: Instant) {
        let mut begun = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let new = Begun {
            at: now,
            next: backlog.next,
        };
        let known = begun.entry((backlog.end, backlog.reason)).or_insert(new);
        if backlog.next < known.next {
            *known = new;
        }
    }

    /// A range is filled in up to `read_to`.
    fn advance(&self, backlog: &Backlog, read_to: u64, now: Instant) -> Pace {
        let mut begun = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (backlog.end, backlog.reason);
        let since = begun.get(&key).copied().unwrap_or(Begun {
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
        Pace {
            blocks_left,
            blocks_per_s: read.saturating_mul(1_000) / took_ms,
            left_s: blocks_left.saturating_mul(took_ms) / read / 1_000,
        }
    }
}

/// Goes on, as the leader, with what is due up to the newest settled block; returns whether there was anything. A network that is
/// halted or was never followed has nothing.
pub async fn run(ctx: &Ctx, chain: &dyn Chain, leadership: &Leadership, rates: &Rates) -> FlowResult<bool> {
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
        let range = (backlog.next, backlog.end);
        let proves_absence = match backlog.reason {
            BacklogReason::Start => is_awaited,
            // What was missed once is not left to the word of one node again.
            BacklogReason::Rescan | BacklogReason::Rewound => true,
            // Their block is read, whatever a list says.
            BacklogReason::Unproven | BacklogReason::Quarantine => false,
        };
        let (progress, until) = (Progress::Backlog(backlog.clone()), Instant::now() + CATCHING_UP);
        let done = match backlog.reason {
            BacklogReason::Rewound => compare(ctx, chain, mandate, backlog).await,
            _ => confirm::run(ctx, chain, mandate, range, proves_absence, progress, Some(until)).await,
        };
        match done {
            Ok(Some(read_to)) => {
                has_filled = true;
                tell(backlog, read_to, &rates.advance(backlog, read_to, Instant::now()));
            }
            // Somebody else has changed the range: the next look shows how it is now.
            Ok(None) => has_filled = true,
            Err(error) => postpone(ctx, mandate, backlog, &error).await?,
        }
    }
    Ok(has_filled)
}

/// A crash before the range goes on has it compared again, which changes nothing.
async fn compare(ctx: &Ctx, chain: &dyn Chain, mandate: &Mandate, backlog: &Backlog) -> FlowResult<Option<u64>> {
    let read_to = reconcile::after_rewind(ctx, chain, mandate, (backlog.next, backlog.end)).await?;
    let tx = ctx.db.begin("advance_backlog").await?;
    let is_moved = store::backlogs::advance(&tx, backlog, read_to, ctx.clock.now()).await?;
    mandate.commit(tx).await?;
    Ok(is_moved.then_some(read_to))
}

fn tell(backlog: &Backlog, read_to: u64, pace: &Pace) {
    let Pace {
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
    fn the_time_left_counts_what_passes_between_two_looks() {
        let rates = Rates::default();
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
        assert_eq!(again.blocks_per_s, 500, "begun again at an earlier block");
    }
}
