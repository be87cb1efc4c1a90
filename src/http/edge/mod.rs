//! Rules for every socket and every call: timeouts, size limits, CORS, ids, one log line, one error body.
//!
//! [`wrap`] wraps the routes of the service, [`server::serve`] serves them on sockets. From the outside in, a call
//! passes [`observe`], [`cors`], the rate limits, the rendering of errors and [`limits`].

pub mod cors;
pub mod limits;
pub mod observe;
mod places;
pub mod server;

use crate::{
    http::{
        call_id::CallId,
        error::{self, FailedCall},
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
use server::InvalidHostMark;
use std::{panic::AssertUnwindSafe, sync::Arc};

/// Dependencies of [`wrap`].
#[derive(Clone)]
pub struct Edge {
    /// Limits of one call.
    pub limits: Limits,
    /// Source of the ids of calls.
    pub ids: Arc<dyn Ids>,
    /// The documented paths.
    pub routes: RouteTable,
    /// Browser origins that may call.
    pub origins: Arc<dyn AllowedOrigins>,
    /// Client addresses of calls.
    pub addresses: Arc<Addresses>,
    /// Rate limits; `None` for no limits.
    pub rates: Option<Arc<RateLimits>>,
}

/// Wraps the routes of the service in the rules for every call.
pub fn wrap<E>(routes: E, edge: Edge) -> BoxEndpoint<'static, Response>
where
    E: Endpoint + 'static,
{
    let limited = limits::limited(routes, edge.limits);
    let rendered = rendered(limited, edge.routes.clone());
    // Without a box here the nested type exceeds the compiler's limit.
    let metered = rate_limits::metered(rendered.boxed(), edge.rates, &edge.routes);
    let addressed = address::addressed(hardened(metered), edge.addresses);
    let open = cors::cors(addressed, edge.origins, edge.routes.clone());
    observe::observed(named(open), edge.ids, edge.routes).boxed()
}

/// Rejects a call with no host, several hosts or an invalid host, because a proxy and this service could interpret it
/// differently.
fn named<E>(endpoint: E) -> impl Endpoint<Output = Response>
where
    E: Endpoint<Output = Response> + 'static,
{
    endpoint.around(|endpoint, request| async move {
        if request.data::<InvalidHostMark>().is_none() {
            return Ok(endpoint.get_response(request).await);
        }
        let id = request.data::<CallId>();
        let mut response = error::no_host().respond(id.map(CallId::as_str));
        cors::harden(response.headers_mut());
        Ok(response)
    })
}

/// Adds the headers that every response carries unless it sets its own.
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

/// Turns errors, panics and bare statuses into the standard error body.
fn rendered<E>(endpoint: E, routes: RouteTable) -> impl Endpoint<Output = Response>
where
    E: Endpoint<Output = Response> + 'static,
{
    endpoint.around(move |endpoint, request| {
        let routes = routes.clone();
        async move {
            let call = FailedCall {
                method: request.method().clone(),
                path: request.uri().path().to_owned(),
                request_id: request.data::<CallId>().cloned(),
            };
            // `OPTIONS *` and CONNECT have no path, which the router cannot handle.
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

/// Whether an error response lacks the body that explains it.
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
