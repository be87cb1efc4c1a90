//! Backlog of deliveries, for the operator.

use crate::{ctx::Ctx, flows::FlowResult, store};

/// Numbers of pending and failed deliveries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Queue {
    /// Number of deliveries that wait for an attempt.
    pub queued: u64,
    /// Waiting time of the longest overdue delivery, in seconds.
    pub oldest_due_s: u64,
    /// Number of failed deliveries that wait for another round.
    pub recovering: u64,
    /// Number of failed deliveries in the log for which no further round is planned. Test deliveries are not counted.
    pub exhausted: u64,
}

/// Counts the deliveries.
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
