//! Makes and revokes keys of orchestrators. An orchestrator may have several, so that keys can be changed without a gap.

use crate::{
    ctx::Ctx,
    domain::{
        ids::{OrchestratorId, OrchestratorKeyId, Secret},
        refusal::Refusal,
    },
    flows::{FlowResult, auth::identify},
    ports::ids::random,
    store::{self, orchestrators::OrchestratorKey},
};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};

/// Characters of a key that stay visible, to tell keys apart.
const HINT_LENGTH: usize = 8;

/// Draws a key and the row that knows its hash.
///
/// Source: rules P.1.2 (43 characters of URL-safe base 64 hold 256 bits).
pub(super) fn draw(ctx: &Ctx, orchestrator: &OrchestratorId, label: Option<&str>) -> (OrchestratorKey, Secret) {
    let key = Secret::new(format!(
        "orc_{}",
        URL_SAFE_NO_PAD.encode(random::<32>(ctx.ids.as_ref()))
    ));
    let row = OrchestratorKey {
        id: OrchestratorKeyId(ctx.ids.ulid()),
        orchestrator: orchestrator.clone(),
        hash: identify::hash(key.reveal()),
        hint: key.reveal().chars().take(HINT_LENGTH).collect(),
        label: label.map(str::to_owned),
        created_at: ctx.clock.now(),
        revoked_at: None,
        last_used_at: None,
    };
    (row, key)
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
