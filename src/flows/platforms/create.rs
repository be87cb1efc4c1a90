//! Creates a tenant.

use crate::{
    ctx::Ctx,
    domain::{ids::PlatformId, refusal::Refusal},
    flows::FlowResult,
    store,
};

/// Creates a platform. Errors: a name of 0 or more than 100 characters.
pub async fn run(ctx: &Ctx, name: &str) -> FlowResult<PlatformId> {
    if name.trim().is_empty() || name.chars().count() > 100 {
        return Err(Refusal::field("name", "must have 1 to 100 characters").into());
    }
    let id = PlatformId(ctx.ids.ulid());
    let tx = ctx.db.begin("create_platform").await?;
    let platform = store::platforms::Platform {
        id: id.clone(),
        name: name.to_owned(),
        created_at: ctx.clock.now(),
    };
    store::platforms::insert(&tx, &platform).await?;
    tx.commit().await?;
    Ok(id)
}
