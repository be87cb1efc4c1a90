//! Stops and resumes the repetition of a request.

use crate::{
    ctx::Ctx,
    domain::{caller::PlatformCaller, refusal::Refusal},
    flows::{FlowResult, requests::find},
    store::{self, Scope},
};

const NOT_ITS_OWN: &str = "A public client ID changes the requests that were made with it; use an API key or a client ID without domains for others";

/// Sets `isRecurrenceStopped`. Errors: unknown (404), a request that the public client ID of the call did not make (403),
/// not a recurring request (400).
///
/// Source: rules P.3.3.
pub async fn run(ctx: &Ctx, caller: &PlatformCaller, request_id: &str, is_stopped: bool) -> FlowResult<()> {
    let request = find(ctx, caller, request_id).await?;
    if caller.is_public() && request.origin.client.as_ref() != caller.client() {
        return Err(Refusal::forbidden(NOT_ITS_OWN).into());
    }
    if request.terms.recurrence.is_none() {
        return Err(Refusal::field("isRecurrenceStopped", "cannot be set: the request has no recurrence").into());
    }
    let whole_platform = Scope {
        platform: caller.platform.clone(),
        client: None,
    };
    let tx = ctx.db.begin("update_request").await?;
    store::requests::set_recurrence_stopped(&tx, &whole_platform, request_id, is_stopped).await?;
    tx.commit().await?;
    Ok(())
}
