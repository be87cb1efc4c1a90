//! Lets a halted chain go on, after somebody has looked at it.

use crate::{
    ctx::Ctx,
    domain::{network::Network, refusal::Refusal},
    flows::FlowResult,
    store::{self, cursors::Cursor},
};

/// Clears the reason and forgets the notes near the head; the worker goes on with its next look at the chain, and may go
/// back below what was final. Returns why it was halted.
///
/// Errors: a chain that was never followed, or that is not halted.
pub async fn run(ctx: &Ctx, network: Network) -> FlowResult<String> {
    let tx = ctx.db.begin("resume_chain").await?;
    let cursor = store::cursors::load(&tx, network).await?;
    let halted = cursor.ok_or_else(|| Refusal::not_found(format!("{network} has never been followed")))?;
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
        return Err(Refusal::conflict(format!("{network} changed at this moment; look at it again")).into());
    }
    tx.commit().await?;
    tracing::warn!(%network, reason, "a halted chain goes on");
    Ok(reason)
}
