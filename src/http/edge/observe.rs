//! Observability of a call: its id, one log line, two metrics. Query strings, headers and bodies are never recorded.

use crate::{
    http::{
        call_id::{CALL_ID_HEADER, CallId},
        routes::RouteTable,
    },
    ports::ids::Ids,
};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use poem::{
    Endpoint, EndpointExt, PathPattern, Response,
    http::{HeaderValue, Method},
};
use poem_openapi::OperationId;
use std::{sync::Arc, time::Instant};
use tracing::Instrument;

/// Upper bounds of the duration histogram, in seconds.
const DURATION_BUCKETS_S: [f64; 12] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0];

/// Gives every call its id, writes the log line and updates the metrics. The wrapped endpoint never fails.
pub(super) fn observed<E>(endpoint: E, ids: Arc<dyn Ids>, routes: RouteTable) -> impl Endpoint<Output = Response>
where
    E: Endpoint<Output = Response> + 'static,
{
    endpoint.around(move |endpoint, mut request| {
        let (ids, routes) = (ids.clone(), routes.clone());
        async move {
            let started = Instant::now();
            let id = CallId::of(&request, ids.as_ref());
            request.set_data(id.clone());
            let method = request.method().clone();
            let path = request.uri().path().to_owned();
            let span = tracing::info_span!("call", request_id = id.as_str());
            let mut response = endpoint.get_response(request).instrument(span).await;
            if let Ok(value) = HeaderValue::from_str(id.as_str()) {
                response.headers_mut().insert(CALL_ID_HEADER, value);
            }
            let call = ObservedCall {
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

struct ObservedCall<'a> {
    method: &'a Method,
    route: &'a str,
    operation: &'static str,
    status: u16,
    seconds: f64,
}

/// The log line of a call. The level is fixed at compile time, so there is one macro call for each level.
macro_rules! line {
    ($level:ident, $call:expr, $id:expr) => {
        tracing::event!(
            target: "prs::calls",
            tracing::Level::$level,
            request_id = $id.as_str(),
            method = method_label($call.method),
            route = $call.route,
            operation = $call.operation,
            status = $call.status,
            duration_ms = ($call.seconds * 1000.0 * 1000.0).round() / 1000.0,
            "call"
        )
    };
}

impl ObservedCall<'_> {
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

    fn log(&self, id: &CallId) {
        // Health probes and forged callbacks are logged at DEBUG, so that they do not fill the log; both are counted.
        let is_forged = self.route.starts_with("/v2/provider-callbacks/") && matches!(self.status, 401 | 429);
        if is_forged || self.route.starts_with("/health/") {
            line!(DEBUG, self, id)
        } else {
            line!(INFO, self, id)
        }
    }
}

/// Initialises the failure counters of every documented operation with 0, so that alerts see the first failure.
pub fn begin(routes: &RouteTable) {
    for (method, id) in routes.operations() {
        for status in ["500", "503"] {
            let labels = [
                ("operation", id.to_owned()),
                ("method", method.to_string()),
                ("status", status.to_owned()),
            ];
            metrics::counter!("prs_http_requests_total", &labels).increment(0);
        }
    }
}

/// The method as a metric label. Unknown methods share one label, because callers can invent methods and the number of
/// labels must stay small.
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

/// Installs the recorder of this process. Errors: one is already installed.
pub fn install_metrics() -> Result<PrometheusHandle, BuildError> {
    PrometheusBuilder::new()
        .set_buckets_for_metric(
            Matcher::Full("prs_http_request_duration_seconds".to_owned()),
            &DURATION_BUCKETS_S,
        )?
        .install_recorder()
}
