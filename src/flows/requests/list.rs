//! Lists payment requests.

use crate::{
    ctx::Ctx,
    domain::{address::Address, caller::PlatformCaller, request::Request},
    flows::FlowResult,
    store::{self, Scope, requests::RequestFilter},
};

/// One page of requests.
#[derive(Debug, Clone)]
pub struct RequestPage {
    /// Newest first.
    pub requests: Vec<Request>,
    /// Number of matches.
    pub total: u64,
    /// Page size.
    pub limit: u64,
    /// Rows before the page.
    pub offset: u64,
}

/// Requests of the caller, optionally only those of one payee. A public client ID gets no personal data, and no
/// requests of links that hide details.
pub async fn run(
    ctx: &Ctx,
    caller: &PlatformCaller,
    payee: Option<Address>,
    limit: u64,
    offset: u64,
) -> FlowResult<RequestPage> {
    let payee = payee.map(|payee| payee.canonical());
    let listed = if caller.is_public() {
        RequestFilter::Shown
    } else {
        RequestFilter::All
    };
    let (reader, scope) = (ctx.db.reader(), Scope::from(caller));
    let (mut requests, total) = store::requests::list(reader, &scope, listed, payee.as_deref(), limit, offset).await?;
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
