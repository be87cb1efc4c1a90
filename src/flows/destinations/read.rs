//! Reads payee destinations.

use crate::{
    ctx::Ctx,
    domain::{address::Address, caller::PlatformCaller, destination::Destination},
    flows::{
        FlowResult,
        destinations::{key_of, unknown, wallet_of},
    },
    store,
};

/// The destination of the signed-in wallet. Errors: a session without a wallet (403).
pub async fn own(ctx: &Ctx, caller: &PlatformCaller) -> FlowResult<Option<Destination>> {
    active(ctx, caller, &wallet_of(caller)?).await
}

/// The active destination of a wallet on the caller's platform.
pub async fn active(ctx: &Ctx, caller: &PlatformCaller, wallet: &Address) -> FlowResult<Option<Destination>> {
    Ok(store::destinations::active_of(ctx.db.reader(), &caller.platform, wallet).await?)
}

/// A destination of the caller's platform by its id, active or not.
///
/// Errors: a text that is not a destination id (400); an unknown destination, or a destination of another platform,
/// with the same response (404).
pub async fn by_id(ctx: &Ctx, caller: &PlatformCaller, id: &str) -> FlowResult<Destination> {
    let key = key_of(id)?.ok_or_else(unknown)?;
    let found = store::destinations::find(ctx.db.reader(), &caller.platform, &key).await?;
    found.ok_or_else(unknown)
}

/// The destination of a recipient, on any platform.
///
/// Only what a payer needs may be returned. Source: rules P.4.3.
pub async fn for_payout(ctx: &Ctx, caller: &PlatformCaller, recipient: &Address) -> FlowResult<Option<Destination>> {
    Ok(store::destinations::payable(ctx.db.reader(), &caller.platform, recipient).await?)
}
