//! What the operator sees of a call: its id, one log line, two metrics. Never a query string, a header or a body.

use super::routes::RouteTable;
use crate::ports::ids::Ids;
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use poem::{
    Endpoint, EndpointExt, PathPattern, Request, Response,
    endpoint::make_sync,
    http::{HeaderName, HeaderValue, Method, header},
};
use poem_openapi::OperationId;
use std::{sync::Arc, time::Instant};
use tracing::Instrument;

/// Name of the header that carries the id of a call.
pub const REQUEST_ID_HEADER: HeaderName = HeaderName::from_static("x-request-id");

/// Longest id that is accepted from a caller.
const REQUEST_ID_LENGTH_MAX: usize = 128;

/// Upper bounds of the duration histogram, in seconds.
const DURATION_BUCKETS_S: [f64; 12] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0];

/// Id of a call: the caller's own, when it is sane, else a new ULID.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestId(Arc<str>);

impl RequestId {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn of(request: &Request, ids: &dyn Ids) -> Self {
        let sent = request.header(REQUEST_ID_HEADER).filter(|text| is_sane(text));
        Self(sent.map_or_else(|| ids.ulid().into(), Into::into))
    }
}

fn is_sane(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b':');
    (1..=REQUEST_ID_LENGTH_MAX).contains(&text.len()) && text.bytes().all(fits)
}

/// Gives every call its id, writes the log line and counts. The wrapped endpoint never fails.
pub(super) fn observed<E>(endpoint: E, ids: Arc<dyn Ids>, routes: RouteTable) -> impl Endpoint<Output = Response>
where
    E: Endpoint<Output = Response> + 'static,
{
    endpoint.around(move |endpoint, mut request| {
        let (ids, routes) = (ids.clone(), routes.clone());
        async move {
            let started = Instant::now();
            let id = RequestId::of(&request, ids.as_ref());
            request.set_data(id.clone());
            let method = request.method().clone();
            let path = request.uri().path().to_owned();
            let span = tracing::info_span!("call", request_id = id.as_str());
            let mut response = endpoint.get_response(request).instrument(span).await;
            if let Ok(value) = HeaderValue::from_str(id.as_str()) {
                response.headers_mut().insert(REQUEST_ID_HEADER, value);
            }
            let call = Observed {
                method: &method,
                route: routes
                    .template(&path)
                    .or_else(|| pattern(&response))
                    .unwrap_or("unmatched"),
                operation: response.data::<OperationId>().map_or("none", |operation| operation.0),
                status: response.status().as_u16(),
                seconds: started.elapsed().as_secs_f64(),
            };
            call.count();
            call.log(&id);
            Ok(response)
        }
    })
}

fn pattern(response: &Response) -> Option<&str> {
    response.data::<PathPattern>().map(|pattern| pattern.0.as_ref())
}

struct Observed<'a> {
    method: &'a Method,
    route: &'a str,
    operation: &'static str,
    status: u16,
    seconds: f64,
}

impl Observed<'_> {
    fn count(&self) {
        let method = method_label(self.method);
        metrics::counter!(
            "prs_http_requests_total",
            "operation" => self.operation,
            "method" => method,
            "status" => self.status.to_string(),
        )
        .increment(1);
        metrics::histogram!("prs_http_request_duration_seconds", "operation" => self.operation, "method" => method)
            .record(self.seconds);
    }

    fn log(&self, id: &RequestId) {
        tracing::info!(
            target: "prs::calls",
            request_id = id.as_str(),
            method = method_label(self.method),
            route = self.route,
            operation = self.operation,
            status = self.status,
            duration_ms = (self.seconds * 1000.0 * 1000.0).round() / 1000.0,
            "call"
        );
    }
}

/// Callers can invent methods; labels of metrics must stay few.
fn method_label(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}

/// Installs the recorder of this process. Errors: there is one already.
pub fn install_metrics() -> Result<PrometheusHandle, BuildError> {
    let handle = PrometheusBuilder::new()
        .set_buckets_for_metric(
            Matcher::Full("prs_http_request_duration_seconds".to_owned()),
            &DURATION_BUCKETS_S,
        )?
        .install_recorder()?;
    metrics::describe_counter!("prs_http_requests_total", "Answered calls.");
    metrics::describe_histogram!(
        "prs_http_request_duration_seconds",
        metrics::Unit::Seconds,
        "Time from the head of a call to its answer."
    );
    Ok(handle)
}

/// The endpoint of `/metrics`: everything that was recorded, in the text form of Prometheus.
pub fn metrics_endpoint(handle: PrometheusHandle) -> impl Endpoint<Output = Response> {
    make_sync(move |_| {
        handle.run_upkeep();
        Response::builder()
            .header(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")
            .body(handle.render())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sane_ids_are_taken_over() {
        assert!(is_sane("01JZX4T9QK3M7N8P2R5S6V0WYB"));
        assert!(is_sane("a-b_c.d:1"));
        assert!(!is_sane(""));
        assert!(!is_sane("two words"));
        assert!(!is_sane("line\nbreak"));
        assert!(!is_sane(&"x".repeat(REQUEST_ID_LENGTH_MAX + 1)));
    }
}
