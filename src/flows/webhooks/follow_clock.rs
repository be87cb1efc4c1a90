//! Keeps the pauses between tries when the clock of the machine jumps: they are times of day in the database.

use crate::{
    ctx::Ctx,
    domain::webhook::{LEASE_MS, RETRY_DELAYS_MS},
    flows::FlowResult,
    store,
};
use chrono::{DateTime, TimeDelta, Utc};

/// No pause between tries and no lease lies further ahead than this.
fn horizon() -> TimeDelta {
    let longest = RETRY_DELAYS_MS.into_iter().fold(LEASE_MS, i64::max);
    TimeDelta::milliseconds(longest + 1_000)
}

/// A jump of the clock of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Jump {
    /// What the clock would show without it.
    pub before: DateTime<Utc>,
    /// How far it shows more than that.
    pub by: TimeDelta,
}

/// Moves what waits by as much as the clock jumped.
///
/// It can be done again, by this process or another one, for what was written by the old clock meanwhile: what was moved
/// once is not moved again, because a jump is longer than any pause; rounds, which may be further apart, tell by their
/// times whether they were. An endpoint that takes nothing has its time anew. Source: rules A.5; rules D.8.
pub async fn run(ctx: &Ctx, Jump { before, by }: Jump) -> FlowResult<()> {
    let (from, until) = if by > TimeDelta::zero() {
        // What was due already stays due.
        (before, before + horizon())
    } else {
        // All that lies further ahead than anything can was written before the jump, whether it was due or not.
        (ctx.clock.now() + horizon(), before + horizon())
    };
    let tx = ctx.db.begin("follow_clock").await?;
    let now = ctx.clock.now();
    let moved = store::clock_jumps::shift(&tx, from, until, by).await?
        + store::clock_jumps::shift_rounds(&tx, before, by, now).await?;
    let failed_before = (by > TimeDelta::zero()).then_some(before);
    store::clock_jumps::begin_failing_anew(&tx, failed_before, now).await?;
    tx.commit().await?;
    if moved > 0 {
        tracing::info!(moved, "what waits was moved along with the clock");
    }
    Ok(())
}

/// Ends waits that no schedule asks for: the clock was set back while no worker ran to see it.
pub async fn begin(ctx: &Ctx) -> FlowResult<()> {
    let now = ctx.clock.now();
    let tx = ctx.db.begin("follow_clock").await?;
    let ended = store::clock_jumps::end_waits(&tx, now + horizon(), now).await?
        + store::clock_jumps::end_waits_for_rounds(&tx, now).await?;
    store::clock_jumps::begin_failing_anew(&tx, None, now).await?;
    tx.commit().await?;
    if ended > 0 {
        tracing::warn!(ended, "the clock of the machine was set back while no worker ran");
    }
    Ok(())
}
