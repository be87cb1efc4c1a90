//! Deactivates a payee destination.

use crate::{
    ctx::Ctx,
    domain::caller::PlatformCaller,
    flows::{
        FlowResult,
        destinations::{end, key_of, unknown, wallet_of},
    },
};

/// Deactivates the destination of the signed-in wallet; its row stays.
///
/// Errors: a text that is not a destination id (400); a session without a wallet (403); the destination is not the
/// active one of the wallet (404). Source: rules P.4.3.
pub async fn run(ctx: &Ctx, caller: &PlatformCaller, id: &str) -> FlowResult<()> {
    let wallet = wallet_of(caller)?;
    let key = key_of(id)?.filter(|key| key.interop.wallet == wallet);
    let key = key.ok_or_else(unknown)?;
    let tx = ctx.db.begin("deactivate_destination").await?;
    if !end(ctx, &tx, &caller.platform, &key).await? {
        return Err(unknown());
    }
    tx.commit().await?;
    Ok(())
}
