//! CORS. A preflight carries no credential that would name a client ID, so an origin is allowed if any active client ID
//! may be used from it.
//!
//! Cookies are allowed only for the listed dashboard pages: client IDs are sent in a header, and a merchant's page must
//! not use a dashboard session. Source: rules H.12.

use crate::http::{error, routes::RouteTable};
use async_trait::async_trait;
use poem::{
    Endpoint, EndpointExt, IntoResponse, Request, Response,
    http::{HeaderMap, HeaderName, HeaderValue, Method, header},
};
use std::sync::Arc;

const METHODS: HeaderValue = HeaderValue::from_static("GET, POST, PUT, PATCH, DELETE");
const HEADERS: HeaderValue = HeaderValue::from_static(
    "content-type, x-client-id, x-api-key, x-orchestrator-key, authorization, idempotency-key, x-request-id",
);
const EXPOSED: HeaderValue = HeaderValue::from_static(
    "retry-after, x-request-id, ratelimit-limit, ratelimit-remaining, ratelimit-reset, idempotency-replayed, \
     content-disposition",
);
const ANYBODY: HeaderValue = HeaderValue::from_static("*");
const VARY: HeaderValue =
    HeaderValue::from_static("Origin, Access-Control-Request-Method, Access-Control-Request-Headers");

/// Time for which a browser may cache a preflight response, in seconds.
const MAX_AGE_S: HeaderValue = HeaderValue::from_static("600");

/// The origins from which active client IDs may be used.
#[async_trait]
pub trait AllowedOrigins: Send + Sync + 'static {
    /// Whether any active client ID may be used from this origin.
    async fn contains(&self, origin: &str) -> bool;

    /// Whether pages of this origin may use sessions, so that their calls may carry cookies.
    fn carries_sessions(&self, origin: &str) -> bool;
}

/// Responds to `OPTIONS` and adds the headers that let allowed pages read the responses.
pub(super) fn cors<E>(
    endpoint: E,
    origins: Arc<dyn AllowedOrigins>,
    routes: RouteTable,
) -> impl Endpoint<Output = Response>
where
    E: Endpoint<Output = Response> + 'static,
{
    endpoint.around(move |endpoint, request| {
        let (origins, routes) = (origins.clone(), routes.clone());
        async move {
            let grant = CorsGrant::of(&request, origins.as_ref()).await;
            let is_preflight = request.method() == Method::OPTIONS
                && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
            let allow = routes.allow(request.uri().path());
            let mut response = match (is_preflight, request.method() == Method::OPTIONS, allow) {
                (true, ..) => grant.preflight(),
                (false, true, Some(allow)) => error::empty().with_header(header::ALLOW, allow).into_response(),
                _ => endpoint.get_response(request).await,
            };
            grant.apply(response.headers_mut());
            Ok(response)
        }
    })
}

enum CorsGrant {
    Public,
    Page(HeaderValue),
    SessionPage(HeaderValue),
    None,
}

impl CorsGrant {
    async fn of(request: &Request, origins: &dyn AllowedOrigins) -> Self {
        let path = request.uri().path();
        if path.starts_with("/openapi/") || path == "/health" || path.starts_with("/health/") {
            return Self::Public;
        }
        // A call with several `Origin` headers gets no CORS headers: one of them could be checked here, and another one
        // trusted elsewhere.
        let mut sent = request.headers().get_all(header::ORIGIN).iter();
        let (Some(origin), None) = (sent.next(), sent.next()) else {
            return Self::None;
        };
        match origin.to_str() {
            Ok(text) if origins.carries_sessions(text) => Self::SessionPage(origin.clone()),
            Ok(text) if origins.contains(text).await => Self::Page(origin.clone()),
            _ => Self::None,
        }
    }

    fn preflight(&self) -> Response {
        let mut response = error::empty();
        if !matches!(self, Self::None) {
            let headers = response.headers_mut();
            headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, METHODS);
            headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, HEADERS);
            headers.insert(header::ACCESS_CONTROL_MAX_AGE, MAX_AGE_S);
        }
        response.headers_mut().insert(header::VARY, VARY);
        response
    }

    fn apply(&self, headers: &mut HeaderMap) {
        let origin = match self {
            Self::Public => {
                headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, ANYBODY);
                return;
            }
            Self::Page(origin) => Some(origin.clone()),
            Self::SessionPage(origin) => {
                headers.insert(
                    header::ACCESS_CONTROL_ALLOW_CREDENTIALS,
                    HeaderValue::from_static("true"),
                );
                Some(origin.clone())
            }
            Self::None => None,
        };
        if let Some(origin) = origin {
            headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
            headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
        }
        if !headers.contains_key(header::VARY) {
            headers.insert(header::VARY, HeaderValue::from_static("Origin"));
        }
    }
}

/// Headers that every response carries unless it sets its own.
pub(super) fn harden(headers: &mut HeaderMap) {
    const FIXED: [(HeaderName, HeaderValue); 4] = [
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
        // Browsers obey this header only over https, so a loopback address stays reachable over http.
        (
            header::STRICT_TRANSPORT_SECURITY,
            HeaderValue::from_static("max-age=31536000"),
        ),
    ];
    for (name, value) in FIXED {
        headers.entry(name).or_insert(value);
    }
}
