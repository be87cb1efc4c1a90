//! Payment requests.

pub mod batch_terms;
pub mod create;
pub mod keep;
pub mod list;
pub mod of_client;
pub mod pay;
pub mod payers;
pub mod places;
pub mod planned;
pub mod read;
pub mod repeat;
pub mod update;

use crate::{
    ctx::Ctx,
    domain::{caller::PlatformCaller, refusal::Refusal, request::Request},
    flows::FlowResult,
    store::{self, Scope},
};

/// Finds a request of the caller. Errors: unknown, or somebody else's, which looks the same (404).
///
/// Any credential of the owning platform sees it. Source: rules P.3.3; decisions D23.
pub async fn find(ctx: &Ctx, caller: &PlatformCaller, request_id: &str) -> FlowResult<Request> {
    let whole_platform = Scope {
        platform: caller.platform.clone(),
        client: None,
    };
    let found = store::requests::find(ctx.db.reader(), &whole_platform, request_id).await?;
    Ok(found.ok_or_else(|| Refusal::not_found("Request not found"))?)
}
