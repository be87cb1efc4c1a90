//! The partner over loopback HTTP, and the pages for payers.

use super::{
    Now,
    sandbox::{OffRampSandbox, PageKind, Received, SandboxPage},
    signature::{CallText, header},
    teller::Teller,
};
use http_body_util::{BodyExt, Full, Limited};
use hyper::{
    HeaderMap, Method, Request, Response, StatusCode,
    body::{Bytes, Incoming},
    header as names,
    http::request::Parts,
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use reqwest::Url;
use std::{convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};
use tokio::{net::TcpListener, time::sleep};

/// Path of the pages.
const PAGES: &str = "/pages";

/// Maximum size of a call.
const CALL_BYTES_MAX: usize = 64 * 1024;

/// Pause after a connection could not be accepted, because the process has too many open files.
const ACCEPTS_AGAIN: Duration = Duration::from_millis(100);

/// Content security policy of the pages: a page loads and runs nothing, and sends its form only to its own origin.
const POLICY: &str = "default-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// A free port of this machine for the partner.
pub struct Bound {
    listener: TcpListener,
    address: SocketAddr,
}

/// Reserves a free port on this machine. Calls to the port get no response until [`Bound::serve`] is called.
pub async fn bind() -> std::io::Result<Bound> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    Ok(Bound { listener, address })
}

/// Shared state of the handlers.
#[derive(Clone)]
struct Shared {
    sandbox: Arc<OffRampSandbox>,
    now: Now,
    origin: Arc<str>,
}

type Answer = Response<Full<Bytes>>;

impl Bound {
    /// URL of the partner.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// URL of its pages.
    pub fn pages(&self) -> String {
        format!("{}{PAGES}", self.url())
    }

    /// Serves the partner and sends its callbacks until the process ends.
    pub fn serve(self, sandbox: Arc<OffRampSandbox>, now: Now, teller: Teller) {
        tokio::spawn(teller.run(sandbox.clone()));
        let shared = Shared {
            sandbox,
            now,
            origin: self.url().into(),
        };
        tokio::spawn(async move {
            loop {
                match self.listener.accept().await {
                    Ok((stream, _)) => {
                        let shared = shared.clone();
                        let service = service_fn(move |request| answer(shared.clone(), request));
                        let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
                        // A caller may disconnect at any time, so errors are ignored.
                        tokio::spawn(async move { drop(connection.await) });
                    }
                    Err(error) => {
                        tracing::warn!(%error, "the sandbox of the off-ramp partner cannot accept a connection");
                        sleep(ACCEPTS_AGAIN).await;
                    }
                }
            }
        });
    }
}

async fn answer(shared: Shared, request: Request<Incoming>) -> Result<Answer, Infallible> {
    let (parts, body) = request.into_parts();
    let Ok(body) = Limited::new(body, CALL_BYTES_MAX).collect().await else {
        return Ok(with_status(413, "text/plain", String::new()));
    };
    let body = body.to_bytes();
    let path = parts.uri.path();
    Ok(match path.strip_prefix(PAGES) {
        Some(page) => of_page(&shared, &parts, page, &body),
        None if path.starts_with("/v1/") => of_call(&shared, &parts, &body).await,
        None => closed(404),
    })
}

fn value<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers
        .get(name)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
}

fn with_status(status: u16, kind: &'static str, body: String) -> Answer {
    let mut answer = Response::new(Full::from(body));
    *answer.status_mut() = StatusCode::from_u16(status).unwrap_or_default();
    answer
        .headers_mut()
        .insert(names::CONTENT_TYPE, names::HeaderValue::from_static(kind));
    answer
}

async fn of_call(shared: &Shared, parts: &Parts, body: &[u8]) -> Answer {
    let headers = &parts.headers;
    let received = Received {
        key: value(headers, header::KEY),
        text: CallText {
            time: value(headers, header::TIME),
            id: value(headers, header::ID),
            method: parts.method.as_str(),
            target: parts.uri.path_and_query().map_or("", |target| target.as_str()),
            body,
        },
        signature: value(headers, header::SIGNATURE),
        idempotency_key: value(headers, header::IDEMPOTENCY_KEY),
    };
    let reaction = shared.sandbox.react(&received, (shared.now)());
    sleep(reaction.after).await;
    with_status(reaction.status, "application/json", reaction.body)
}

fn of_page(shared: &Shared, parts: &Parts, page: &str, form: &[u8]) -> Answer {
    let (kind, payer) = match page.split('/').collect::<Vec<_>>()[..] {
        ["", "kyc", payer] => (PageKind::Kyc, payer),
        ["", "agreement", payer] => (PageKind::Agreement, payer),
        _ => return closed(404),
    };
    // A foreign host name that resolves to this machine is not a host of these pages (DNS rebinding).
    let is_own = |name: names::HeaderName, scheme: &str| {
        let shown = parts.headers.get(name);
        shown.is_none_or(|shown| {
            shown
                .to_str()
                .is_ok_and(|shown| format!("{scheme}{shown}") == *shared.origin)
        })
    };
    if !is_own(names::HOST, "http://") || !is_own(names::ORIGIN, "") {
        return closed(403);
    }
    let now = (shared.now)();
    if parts.method == Method::POST {
        let outcome = outcome(form).unwrap_or_default();
        if !shared.sandbox.press(kind, payer, &outcome, now) {
            return closed(404);
        }
        let mut seen = with_status(303, "text/plain", String::new());
        if let Ok(path) = parts.uri.path().parse() {
            seen.headers_mut().insert(names::LOCATION, path);
        }
        return seen;
    }
    let shown = shared.sandbox.page(kind, payer, now);
    shown.map_or_else(|| closed(404), |shown| with_page(200, document(kind, &shown)))
}

/// The pressed button.
fn outcome(form: &[u8]) -> Option<String> {
    let form = Url::parse(&format!("http://form/?{}", String::from_utf8_lossy(form))).ok()?;
    let (_, outcome) = form.query_pairs().find(|(name, _)| name == "outcome")?;
    Some(outcome.into_owned())
}

fn closed(status: u16) -> Answer {
    with_page(status, framed("Page not found", ""))
}

fn with_page(status: u16, page: String) -> Answer {
    let mut answer = with_status(status, "text/html; charset=utf-8", page);
    for (name, value) in [
        (names::CONTENT_SECURITY_POLICY, POLICY),
        (names::CACHE_CONTROL, "no-store"),
        (names::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ] {
        answer
            .headers_mut()
            .insert(name, names::HeaderValue::from_static(value));
    }
    answer
}

/// The HTML of a page. It contains no text from outside, so nothing needs escaping.
fn document(kind: PageKind, page: &SandboxPage) -> String {
    let (title, about) = match kind {
        PageKind::Kyc => (
            "Identity",
            "The partner of `prs dev` checks no documents: choose the result of the check.",
        ),
        PageKind::Agreement => (
            "Terms",
            "The partner of `prs dev` has no terms: choose what the payer does.",
        ),
    };
    let button =
        |outcome: &&str| format!(r#"<button type="submit" name="outcome" value="{outcome}">{outcome}</button> "#);
    let buttons: String = page.outcomes.iter().map(button).collect();
    let status = page.status;
    let body = format!(
        r#"<p>{about}</p><p>Status: <strong id="status">{status}</strong></p><form method="post">{buttons}</form>"#
    );
    framed(title, &body)
}

fn framed(title: &str, body: &str) -> String {
    format!(
        r#"<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>{title}</title></head><body><main><h1>{title}</h1>{body}</main></body></html>"#
    )
}
