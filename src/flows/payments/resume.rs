//! Resumes a halted chain after the operator has checked it.

use super::never_followed;
use crate::{
    ctx::Ctx,
    domain::{network::Network, refusal::Refusal},
    flows::FlowResult,
    store::{self, cursors::Cursor},
};

/// Clears the halt reason and deletes the observations near the head. The worker continues with its next step and may
/// then rewind final blocks. Returns why the chain was halted.
///
/// Errors: a chain that was never followed, or that is not halted.
pub async fn run(ctx: &Ctx, network: Network) -> FlowResult<String> {
    let tx = ctx.db.begin("resume_chain").await?;
    let cursor = store::cursors::load(&tx, network).await?;
    let halted = cursor.ok_or_else(|| never_followed(network))?;
    let Some(reason) = halted.halted_reason.clone() else {
        return Err(Refusal::conflict(format!("{network} is not halted")).into());
    };
    let cursor = Cursor {
        halted_reason: None,
        may_rewind: true,
        seen: halted.finalized,
        updated_at: ctx.clock.now(),
        ..halted.clone()
    };
    store::observations::delete_above(&tx, network, cursor.finalized.number).await?;
    store::cursors::delete_blocks_above(&tx, network, cursor.finalized.number).await?;
    if !store::cursors::replace(&tx, &halted, &cursor).await? {
        return Err(Refusal::conflict(format!(
            "another process has changed the state of {network} in the meantime; check it before you resume it"
        ))
        .into());
    }
    tx.commit().await?;
    tracing::warn!(%network, reason, "a halted chain was resumed");
    Ok(reason)
}
