//! Makes and revokes keys of orchestrators. An orchestrator may have several, so that keys can be changed without a gap.

use crate::{
    ctx::Ctx,
    domain::{
        ids::{OrchestratorId, OrchestratorKeyId, Secret},
        refusal::Refusal,
    },
    flows::{FlowResult, auth::identify},
    store::{self, orchestrators::OrchestratorKey},
};

/// Draws a key and the row that knows its hash. Source: rules P.1.2 (`orc_` and the secret).
pub(super) fn draw(ctx: &Ctx, orchestrator: &OrchestratorId, label: Option<&str>) -> (OrchestratorKey, Secret) {
    let drawn = identify::draw_key(ctx, "orc_");
    let row = OrchestratorKey {
        id: OrchestratorKeyId(ctx.ids.ulid()),
        orchestrator: orchestrator.clone(),
        hash: drawn.hash,
        hint: drawn.hint,
        label: label.map(str::to_owned),
        created_at: ctx.clock.now(),
        revoked_at: None,
        last_used_at: None,
    };
    (row, drawn.key)
}

/// Makes a key; the text is shown once and only its hash is kept. Errors: an unknown orchestrator.
pub async fn create(
    ctx: &Ctx,
    orchestrator: &OrchestratorId,
    label: Option<&str>,
) -> FlowResult<(OrchestratorKeyId, Secret)> {
    let (row, key) = draw(ctx, orchestrator, label);
    let tx = ctx.db.begin("create_orchestrator_key").await?;
    if !store::orchestrators::exists(&tx, orchestrator).await? {
        return Err(Refusal::not_found("Orchestrator not found").into());
    }
    store::orchestrators::insert_key(&tx, &row).await?;
    tx.commit().await?;
    Ok((row.id, key))
}

/// Revokes a key for good. Errors: an unknown key, or one that is revoked already.
pub async fn revoke(ctx: &Ctx, orchestrator: &OrchestratorId, id: &OrchestratorKeyId) -> FlowResult<()> {
    let tx = ctx.db.begin("revoke_orchestrator_key").await?;
    let revoked = store::orchestrators::revoke_key(&tx, orchestrator, id, ctx.clock.now()).await?;
    tx.commit().await?;
    if revoked {
        Ok(())
    } else {
        Err(Refusal::not_found("Orchestrator key not found").into())
    }
}
