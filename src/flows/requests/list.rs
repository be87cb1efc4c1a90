//! Lists payment requests.

use crate::{
    ctx::Ctx,
    domain::{address::Address, caller::PlatformCaller, request::Request},
    flows::FlowResult,
    store::{self, Scope, requests::Listed},
};

/// One page of requests.
#[derive(Debug, Clone)]
pub struct RequestPage {
    /// Newest first.
    pub requests: Vec<Request>,
    /// All that match.
    pub total: u64,
    /// Page size.
    pub limit: u64,
    /// Rows before the page.
    pub offset: u64,
}

/// Requests of the caller, optionally those of one payee. A public client ID is told nothing about persons, and of no
/// request of a link that hides something.
pub async fn run(
    ctx: &Ctx,
    caller: &PlatformCaller,
    payee: Option<Address>,
    limit: u64,
    offset: u64,
) -> FlowResult<RequestPage> {
    let payee = payee.map(|payee| payee.canonical());
    let listed = match caller.is_public() {
        true => Listed::Shown,
        false => Listed::All,
    };
    let (reader, scope) = (ctx.db.reader(), Scope::from(caller));
    let (mut requests, total) =
        store::requests::list(reader, &scope, (listed, payee.as_deref()), limit, offset).await?;
    if caller.is_public() {
        requests = requests.into_iter().map(Request::without_persons).collect();
    }
    Ok(RequestPage {
        requests,
        total,
        limit,
        offset,
    })
}
