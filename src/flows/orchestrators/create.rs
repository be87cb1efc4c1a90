//! Creates an orchestrator.

use crate::{
    ctx::Ctx,
    domain::{
        ids::{KeyId, OrchestratorId, Owner, Secret},
        name::require_name,
    },
    flows::{FlowResult, auth::identify},
    store,
};

/// An orchestrator and its first key, which is shown only once.
#[derive(Debug, Clone)]
pub struct NewOrchestrator {
    /// The orchestrator.
    pub id: OrchestratorId,
    /// Row of the key.
    pub key_id: KeyId,
    /// The key.
    pub key: Secret,
}

/// Creates an orchestrator with a key. Errors: those of [`require_name`].
///
/// Source: rules P.1.2; rules P.5.
pub async fn run(ctx: &Ctx, name: &str) -> FlowResult<NewOrchestrator> {
    require_name(name)?;
    let id = OrchestratorId(ctx.ids.ulid());
    let new = identify::draw_key(ctx, Owner::from(&id), None)?;
    let tx = ctx.db.begin("create_orchestrator").await?;
    store::orchestrators::insert(&tx, &id, name, ctx.clock.now()).await?;
    store::keys::insert(&tx, &new.row).await?;
    tx.commit().await?;
    identify::note_issued(ctx, &new.row.hash);
    Ok(NewOrchestrator {
        id,
        key_id: new.row.id,
        key: new.key,
    })
}
