//! Limits of one call: size of its body, time for receiving it, time of its handler.

use crate::http::error::{Problem, out_of_time, too_large, too_slow};
use bytes::BytesMut;
use http_body_util::BodyExt;
use hyper::body::Body as _;
use poem::{Endpoint, EndpointExt, IntoResponse, Request, Response, http::header};
use std::time::Duration;
use tokio::time::timeout;

/// Bytes beyond the limit that are still read and dropped, so that a client that reads only after sending everything
/// gets the response instead of a connection reset.
const DISCARDED_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Limits of one call. Source: rules C.4.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Maximum body size.
    pub body_bytes_max: usize,
    /// Timeout for receiving the whole body.
    pub body_deadline_ms: u64,
    /// Timeout of the handler.
    pub handler_deadline_ms: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_bytes_max: 64 * 1024,
            body_deadline_ms: 10_000,
            handler_deadline_ms: 30_000,
        }
    }
}

/// Applies the limits: 413, 408 and 503 with the standard error body.
pub(super) fn limited<E>(endpoint: E, limits: Limits) -> impl Endpoint<Output = Response>
where
    E: Endpoint + 'static,
{
    endpoint.around(move |endpoint, mut request| async move {
        read_body(&mut request, limits).await?;
        let deadline = Duration::from_millis(limits.handler_deadline_ms);
        // A client that disconnects must not stop a handler between the begin and the commit of a transaction, because
        // each such stop would cost a database connection. So handlers run to completion in a task.
        let handler = tokio::spawn(async move { endpoint.call(request).await.map(IntoResponse::into_response) });
        match timeout(deadline, handler).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(ended)) => match ended.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => Err(out_of_time().into()),
            },
            Err(_) => {
                tracing::error!(
                    deadline_ms = limits.handler_deadline_ms,
                    "a handler did not finish in time; the client gets 503"
                );
                Err(out_of_time().into())
            }
        }
    })
}

/// Reads the body into memory, so that handlers get either all of it or nothing.
async fn read_body(request: &mut Request, limits: Limits) -> Result<(), Problem> {
    let body: http_body_util::combinators::BoxBody<bytes::Bytes, std::io::Error> = request.take_body().into();
    if body.is_end_stream() {
        return Ok(());
    }
    let announced = request
        .header(header::CONTENT_LENGTH)
        .and_then(|length| length.parse::<usize>().ok());
    // A client that sends `Expect: 100-continue` transmits the body only once the service begins to read it. If the
    // announced length is too large, the service rejects the call without reading, so the client never transmits the
    // body.
    let asks_first = request.headers().contains_key(header::EXPECT);
    let reading = async {
        if announced.is_some_and(|length| length > limits.body_bytes_max) {
            if !asks_first {
                discard(body, 0).await;
            }
            return Err(too_large());
        }
        collect(body, limits.body_bytes_max).await
    };
    let bytes = timeout(Duration::from_millis(limits.body_deadline_ms), reading)
        .await
        .unwrap_or_else(|_| Err(too_slow()))?;
    request.set_body(bytes);
    Ok(())
}

type Incoming = http_body_util::combinators::BoxBody<bytes::Bytes, std::io::Error>;

async fn collect(mut body: Incoming, bytes_max: usize) -> Result<bytes::Bytes, Problem> {
    let mut bytes = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame =
            frame.map_err(|_| Problem::bad_request("The body could not be read completely: send the call again"))?;
        let Ok(chunk) = frame.into_data() else { continue };
        if bytes.len() + chunk.len() > bytes_max {
            discard(body, bytes.len() + chunk.len()).await;
            return Err(too_large());
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes.freeze())
}

async fn discard(mut body: Incoming, mut seen_bytes: usize) {
    while seen_bytes <= DISCARDED_BYTES_MAX {
        match body.frame().await {
            Some(Ok(frame)) => seen_bytes += frame.data_ref().map_or(0, bytes::Bytes::len),
            Some(Err(_)) | None => return,
        }
    }
}
