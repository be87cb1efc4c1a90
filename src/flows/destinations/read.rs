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

/// The destination of the wallet that signed in. Errors: a session without a wallet (403).
pub async fn own(ctx: &Ctx, caller: &PlatformCaller) -> FlowResult<Option<Destination>> {
    active(ctx, caller, &wallet_of(caller)?).await
}

/// The destination of a wallet that is in use on the caller's platform.
pub async fn active(ctx: &Ctx, caller: &PlatformCaller, wallet: &Address) -> FlowResult<Option<Destination>> {
    Ok(store::destinations::active_of(ctx.db.reader(), &caller.platform, wallet).await?)
}

/// A destination of the caller's platform by its id, in use or not.
///
/// Errors: no id of a destination (400); unknown, or another platform's, which looks the same (404).
pub async fn by_id(ctx: &Ctx, caller: &PlatformCaller, id: &str) -> FlowResult<Destination> {
    let key = key_of(id)?.ok_or_else(unknown)?;
    let found = store::destinations::find(ctx.db.reader(), &caller.platform, &key).await?;
    found.ok_or_else(unknown)
}

/// Where somebody who is to be paid wants to be paid, whichever platform they said it to.
///
/// Only what a payer has to know may be shown of it. Source: rules P.4.3.
pub async fn for_payout(ctx: &Ctx, caller: &PlatformCaller, recipient: &Address) -> FlowResult<Option<Destination>> {
    Ok(store::destinations::payable(ctx.db.reader(), &caller.platform, recipient).await?)
}
