//! What holds for every socket and every call: deadlines, sizes, pages that may read, ids, one log line, one error body.
//!
//! [`wrap`] puts the routes of the service into it, [`server::serve`] puts them on sockets. From the outside in, a call
//! passes [`observe`], [`cors`], the rate limits, the rendering of errors and [`limits`].

pub mod cors;
pub mod limits;
pub mod observe;
mod places;
pub mod server;

use crate::{
    http::{
        call_id::CallId,
        error::{self, Call},
        gate::{
            address::{self, Addresses},
            rate_limits::{self, RateLimits},
        },
        routes::RouteTable,
    },
    ports::ids::Ids,
};
use cors::AllowedOrigins;
use futures_util::FutureExt;
use limits::Limits;
use poem::{Endpoint, EndpointExt, IntoResponse, Response, endpoint::BoxEndpoint};
use server::Misnamed;
use std::{panic::AssertUnwindSafe, sync::Arc};

/// What [`wrap`] needs from the rest of the service.
#[derive(Clone)]
pub struct Edge {
    /// Limits of one call.
    pub limits: Limits,
    /// Source of the ids of calls.
    pub ids: Arc<dyn Ids>,
    /// The documented paths.
    pub routes: RouteTable,
    /// Pages of browsers that may call.
    pub origins: Arc<dyn AllowedOrigins>,
    /// Where calls come from.
    pub addresses: Arc<Addresses>,
    /// How often credentials may call; absent, as often as they like.
    pub rates: Option<Arc<RateLimits>>,
}

/// Wraps the routes of the service in everything that holds for each call.
pub fn wrap<E>(routes: E, edge: Edge) -> BoxEndpoint<'static, Response>
where
    E: Endpoint + 'static,
{
    let limited = limits::limited(routes, edge.limits);
    let rendered = rendered(limited, edge.routes.clone());
    // Without a box here the type of the whole is deeper than the compiler follows it.
    let metered = rate_limits::metered(rendered.boxed(), edge.rates, &edge.routes);
    let addressed = address::addressed(hardened(metered), edge.addresses);
    let open = cors::cors(addressed, edge.origins, edge.routes.clone());
    observe::observed(named(open), edge.ids, edge.routes).boxed()
}

/// Refuses a call that names no host, several or what is none: a proxy and this service could read it differently.
fn named<E>(endpoint: E) -> impl Endpoint<Output = Response>
where
    E: Endpoint<Output = Response> + 'static,
{
    endpoint.around(|endpoint, request| async move {
        if request.data::<Misnamed>().is_none() {
            return Ok(endpoint.get_response(request).await);
        }
        let id = request.data::<CallId>();
        let mut response = error::no_host().respond(id.map(CallId::as_str));
        cors::harden(response.headers_mut());
        Ok(response)
    })
}

/// Adds the headers that every answer carries unless it says otherwise.
fn hardened<E>(endpoint: E) -> impl Endpoint<Output = Response>
where
    E: Endpoint<Output = Response> + 'static,
{
    endpoint.around(|endpoint, request| async move {
        let mut response = endpoint.get_response(request).await;
        cors::harden(response.headers_mut());
        Ok(response)
    })
}

/// Turns errors, panics and bare statuses into the one error body.
fn rendered<E>(endpoint: E, routes: RouteTable) -> impl Endpoint<Output = Response>
where
    E: Endpoint<Output = Response> + 'static,
{
    endpoint.around(move |endpoint, request| {
        let routes = routes.clone();
        async move {
            let call = Call {
                method: request.method().clone(),
                path: request.uri().path().to_owned(),
                request_id: request.data::<CallId>().cloned(),
            };
            // `OPTIONS *` and CONNECT carry no path, which the router cannot read.
            let answer = if call.path.starts_with('/') {
                AssertUnwindSafe(endpoint.call(request)).catch_unwind().await
            } else {
                Ok(Err(poem::error::NotFoundError.into()))
            };
            let mut response = match answer {
                Ok(Ok(response)) if is_bare(&response) => {
                    let problem = error::from_status(response.status(), &call);
                    let body = problem.respond(call.request_id.as_ref().map(CallId::as_str));
                    carry_over(response.extensions().clone(), body)
                }
                Ok(Ok(response)) => response,
                Ok(Err(error)) => {
                    let operation = error.data::<poem_openapi::OperationId>().map(|operation| operation.0);
                    let mut response = error::render(error, &call, &routes);
                    if let Some(operation) = operation {
                        response.set_data(poem_openapi::OperationId(operation));
                    }
                    response
                }
                Err(panic) => error::panicked(panic.as_ref(), &call),
            };
            error::name_methods(&mut response, &call, &routes);
            Ok(response.into_response())
        }
    })
}

/// Whether an answer says no without the body that says why, to programs or to people.
fn is_bare(response: &Response) -> bool {
    let is_failure = response.status().is_client_error() || response.status().is_server_error();
    is_failure
        && !response
            .content_type()
            .is_some_and(|kind| kind.starts_with("application/json") || kind.starts_with("text/html"))
}

fn carry_over(extensions: poem::http::Extensions, mut response: Response) -> Response {
    *response.extensions_mut() = extensions;
    response
}
