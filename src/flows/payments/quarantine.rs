//! What was set aside: the operator looks at it and decides.

use crate::{
    ctx::Ctx,
    domain::{
        ids::QuarantineId,
        network::Network,
        oddity::{QuarantineState, Verdict},
        refusal::Refusal,
    },
    flows::FlowResult,
    store::{self, backlogs::BacklogReason},
};
use chrono::TimeDelta;

pub use crate::store::quarantine::Quarantined;

/// Most rows of a list.
const LIST_MAX: u64 = 1_000;

/// Days for which something is kept after it was settled.
const KEPT_DAYS: i64 = 90;

/// Rows of one transaction.
const BATCH_ROWS: u64 = 500;

/// What was set aside, newest first: what waits for somebody, or everything.
pub async fn list(ctx: &Ctx, network: Option<Network>, includes_decided: bool) -> FlowResult<Vec<Quarantined>> {
    let open = [QuarantineState::Open, QuarantineState::Retrying];
    let states: &[QuarantineState] = if includes_decided { &[] } else { &open };
    Ok(store::quarantine::list(ctx.db.reader(), network, states, LIST_MAX).await?)
}

/// One thing that was set aside. Errors: there is none with this id.
pub async fn show(ctx: &Ctx, id: &QuarantineId) -> FlowResult<Quarantined> {
    let found = store::quarantine::get(ctx.db.reader(), id).await?;
    Ok(found.ok_or_else(|| unknown(id))?)
}

/// Decides about something that was set aside. A retry and an acceptance have its block read again beside new ones;
/// the worker that follows the network does it with its next look. Returns the row after it; a decision that is
/// repeated leaves time and note of the first one.
///
/// Errors: there is none with this id; its state or reason does not allow the verdict.
pub async fn decide(ctx: &Ctx, id: &QuarantineId, verdict: Verdict, note: Option<&str>) -> FlowResult<Quarantined> {
    let now = ctx.clock.now();
    let tx = ctx.db.begin("decide_quarantined").await?;
    let quarantined = store::quarantine::get(&tx, id).await?.ok_or_else(|| unknown(id))?;
    let (odd, before) = (&quarantined.oddity, quarantined.state);
    let after = before
        .after(verdict, odd.reason)
        .map_err(|why| Refusal::conflict(format!("{id} is {}: {why}", before.wire())))?;
    if after == before && !after.is_open() {
        return Ok(quarantined);
    }
    if !store::quarantine::set_state(&tx, &quarantined, after, note, now).await? {
        return Err(Refusal::conflict(format!("{id} changed at this moment; look at it again")).into());
    }
    if verdict != Verdict::Reject {
        let block = (odd.block_number, odd.block_number);
        store::backlogs::push(&tx, odd.network, block, BacklogReason::Quarantine, now).await?;
    }
    tx.commit().await?;
    tracing::info!(%id, network = %odd.network, verdict = verdict.wire(), "decided about what was set aside");
    show(ctx, id).await
}

fn unknown(id: &QuarantineId) -> Refusal {
    Refusal::not_found(format!("nothing with the id {id} was set aside"))
}

/// Forgets one batch of what was settled long ago; tells whether there may be more.
pub async fn sweep(ctx: &Ctx) -> FlowResult<bool> {
    let cutoff = ctx.clock.now() - TimeDelta::days(KEPT_DAYS);
    let tx = ctx.db.begin("sweep_quarantine").await?;
    let gone = store::quarantine::forget(&tx, cutoff, BATCH_ROWS).await?;
    tx.commit().await?;
    Ok(gone == BATCH_ROWS)
}
