//! Creates a platform.

use crate::{
    ctx::Ctx,
    domain::{ids::PlatformId, name::require_name},
    flows::FlowResult,
    store,
};

/// Creates a platform. Errors: as for [`require_name`].
pub async fn run(ctx: &Ctx, name: &str) -> FlowResult<PlatformId> {
    require_name(name)?;
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
