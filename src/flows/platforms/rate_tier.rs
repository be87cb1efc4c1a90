//! Sets the rate limit tier of a platform, or of one of its client IDs.

use crate::{
    ctx::Ctx,
    domain::{ids::PlatformId, quota::Tier, refusal::Refusal},
    flows::FlowResult,
    store,
};

/// Sets the tier. Errors: an unknown platform, or a client ID of another platform.
pub async fn set(ctx: &Ctx, platform: &PlatformId, client_id: Option<&str>, tier: Tier) -> FlowResult<()> {
    let conn = ctx.db.reader();
    if !store::platforms::exists(conn, platform).await? {
        return Err(Refusal::not_found("Platform not found").into());
    }
    let client = match client_id {
        None => None,
        Some(text) => {
            let found = store::client_ids::find_by_client_id(conn, text).await?;
            let owned = found.filter(|client| client.platform == *platform);
            Some(owned.ok_or_else(|| Refusal::not_found("Client ID not found"))?.row)
        }
    };
    let tx = ctx.db.begin("set_rate_tier").await?;
    store::rate_tiers::set(&tx, platform, client.as_ref(), tier).await?;
    tx.commit().await?;
    Ok(())
}
