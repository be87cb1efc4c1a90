//! How much waits to be delivered, for the operator.

use crate::{ctx::Ctx, flows::FlowResult, store};

/// What waits, and what was given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Queue {
    /// Deliveries that wait for a try.
    pub queued: u64,
    /// Seconds for which the one that is due the longest waits.
    pub oldest_due_s: u64,
    /// Failed deliveries that wait for a further round.
    pub recovering: u64,
    /// Failed deliveries without one, as long as the log keeps them; tests are not among them.
    pub exhausted: u64,
}

/// Counts it.
pub async fn run(ctx: &Ctx) -> FlowResult<Queue> {
    let (queued, oldest_due) = store::recovery::queued(ctx.db.reader()).await?;
    let (failed, recovering) = store::recovery::failed(ctx.db.reader()).await?;
    let waits = oldest_due.map_or(0, |due| (ctx.clock.now() - due).num_seconds());
    Ok(Queue {
        queued,
        oldest_due_s: u64::try_from(waits).unwrap_or(0),
        recovering,
        exhausted: failed.saturating_sub(recovering),
    })
}
