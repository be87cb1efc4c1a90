//! Adjusts retry times when the clock of the machine jumps, because the database stores them as absolute times.

use crate::{
    ctx::Ctx,
    domain::webhook::{LEASE_MS, RETRY_DELAYS_MS},
    flows::FlowResult,
    store,
};
use chrono::{DateTime, TimeDelta, Utc};
use std::time::Duration;

/// Minimum size of a clock step that counts as a jump. Drift corrections are smaller, and all pauses and leases are
/// shorter.
const JUMP_MIN: TimeDelta = TimeDelta::seconds(60);

/// How far in the future the time of a retry or of the end of a lease can be.
fn horizon() -> TimeDelta {
    let longest = RETRY_DELAYS_MS.into_iter().fold(LEASE_MS, i64::max);
    TimeDelta::milliseconds(longest + 1_000)
}

/// A jump of the clock of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Jump {
    /// Time that the clock would show without the jump.
    pub before: DateTime<Utc>,
    /// Size of the jump.
    pub by: TimeDelta,
}

/// The time that the clock of the machine shows, and monotonic time at the same moment.
pub type TimeReading = (DateTime<Utc>, Duration);

impl Jump {
    /// The jump between two readings. Several jumps count as one, and are no jump if they cancel out.
    pub fn between(first: TimeReading, second: TimeReading) -> Option<Self> {
        let passed = TimeDelta::from_std(second.1.saturating_sub(first.1)).unwrap_or(TimeDelta::MAX);
        let before = first.0.checked_add_signed(passed)?;
        let by = second.0 - before;
        (by.abs() >= JUMP_MIN).then_some(Self { before, by })
    }
}

/// Moves pending retry times by the size of the jump.
///
/// This process or another process can repeat the call, for rows that were written with the old clock in the meantime.
/// The call moves no row twice. Retry times and leases are shorter than a jump, so a moved row is outside the range of
/// times that are moved. Recovery rounds can be longer than a jump, and moved rounds are recognised by their times. The
/// failure period of a failing endpoint starts again. Source: rules A.5; rules D.8.
pub async fn run(ctx: &Ctx, Jump { before, by }: Jump) -> FlowResult<()> {
    let (from, until) = if by > TimeDelta::zero() {
        // Deliveries that were already due stay due.
        (before, before + horizon())
    } else {
        // After a jump back, a time further in the future than any retry was written before the jump.
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
        tracing::info!(moved, "pending retry times were adjusted to the clock");
    }
    Ok(())
}

/// Ends waits that are longer than any schedule. Such waits mean that the clock was set back while no worker was
/// running.
pub async fn begin(ctx: &Ctx) -> FlowResult<()> {
    let now = ctx.clock.now();
    let tx = ctx.db.begin("follow_clock").await?;
    let ended = store::clock_jumps::end_waits(&tx, now + horizon(), now).await?
        + store::clock_jumps::end_waits_for_rounds(&tx, now).await?;
    store::clock_jumps::begin_failing_anew(&tx, None, now).await?;
    tx.commit().await?;
    if ended > 0 {
        tracing::warn!(
            ended,
            "the clock of this machine was set back while no worker ran; deliveries that would wait too long are due \
             now"
        );
    }
    Ok(())
}
