//! Payment requests.

pub mod cancel;
pub mod create;
pub mod list;
pub mod of_client;
pub mod pay;
pub mod read;
pub mod repeat;
pub mod room;
pub mod update;

use crate::{
    ctx::Ctx,
    domain::{caller::PlatformCaller, refusal::Refusal, request::Request},
    flows::FlowResult,
    store::{self, Scope, Tx},
};

/// Finds a request of the caller. Errors: an unknown request, or a request of another platform, with the same response
/// (404).
///
/// Any credential of the owning platform can read it, but a public client ID cannot read requests of links that hide
/// details. Source: rules P.3.3; decisions D23; decisions D32.
pub async fn find(ctx: &Ctx, caller: &PlatformCaller, request_id: &str) -> FlowResult<Request> {
    let whole_platform = Scope::of_platform(&caller.platform);
    let found = store::requests::find(ctx.db.reader(), &whole_platform, request_id).await?;
    let shown = found.filter(|request| !(caller.is_public() && request.is_hidden));
    Ok(shown.ok_or_else(not_found)?)
}

/// Reads a request again and locks it until the transaction ends.
async fn find_locked(tx: &Tx, request: &Request) -> FlowResult<Request> {
    store::requests::lock(tx, request).await?;
    let whole_platform = Scope::of_platform(&request.origin.platform);
    let found = store::requests::find(tx, &whole_platform, request.id.as_str()).await?;
    Ok(found.ok_or_else(not_found)?)
}

fn not_found() -> Refusal {
    Refusal::not_found("Request not found")
}
