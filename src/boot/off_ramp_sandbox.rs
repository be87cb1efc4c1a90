//! The off-ramp partner of `prs dev`, over loopback HTTP, so that what calls it and what hears from it is what does so with
//! a real one; and the pages to which it sends payers.

use crate::{
    adapters::off_ramp::{
        sandbox::{OffRampSandbox, PageKind, Received, SandboxPage},
        teller::Teller,
    },
    domain::off_ramp_signature::{CallText, header},
    http::edge::server::{self, ServerOptions, Shutdown},
    ports::clock::Clock,
};
use maud::{DOCTYPE, Markup, html};
use poem::{
    Body, Request, Response, Route,
    endpoint::make,
    http::{Method, StatusCode, header as names},
};
use std::{net::SocketAddr, sync::Arc};
use tokio::{net::TcpListener, time::sleep};
use url::form_urlencoded;

/// Where the pages are.
const PAGES: &str = "/pages";

/// Largest call that is read.
const CALL_BYTES_MAX: usize = 64 * 1024;

/// A page loads nothing, runs nothing, and sends its form to itself alone.
const POLICY: &str = "default-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// A free port of this machine for the partner.
pub struct Bound {
    listener: TcpListener,
    address: SocketAddr,
}

/// Takes a free port; it answers once it is served.
pub async fn bind() -> std::io::Result<Bound> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    Ok(Bound { listener, address })
}

/// What the routes share.
#[derive(Clone)]
struct Shared {
    sandbox: Arc<OffRampSandbox>,
    clock: Arc<dyn Clock>,
    origin: Arc<str>,
}

impl Bound {
    /// The address of the partner.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The address of its pages.
    pub fn pages(&self) -> String {
        format!("{}{PAGES}", self.url())
    }

    /// Serves the partner, and lets it tell what happens, until the process ends.
    pub fn serve(self, sandbox: Arc<OffRampSandbox>, clock: Arc<dyn Clock>, teller: Teller) {
        tokio::spawn(teller.run(sandbox.clone()));
        let shared = Shared {
            sandbox,
            clock,
            origin: self.url().into(),
        };
        let of_calls = shared.clone();
        let calls = make(move |request| answer(of_calls.clone(), request));
        let pages = make(move |request| page(shared.clone(), request));
        let routes = Route::new()
            .at("/v1/*path", calls)
            .at(format!("{PAGES}/:kind/:payer"), pages);
        tokio::spawn(async move {
            let served = server::serve(
                vec![self.listener],
                routes,
                ServerOptions::default(),
                Shutdown::default(),
            );
            if let Err(error) = served.await {
                tracing::error!(%error, "the sandbox of the off-ramp partner ended");
            }
        });
    }
}

fn value<'a>(request: &'a Request, name: &str) -> &'a str {
    request.header(name).unwrap_or_default()
}

fn with_status(status: u16) -> poem::ResponseBuilder {
    Response::builder().status(StatusCode::from_u16(status).unwrap_or_default())
}

async fn answer(shared: Shared, mut request: Request) -> poem::Result<Response> {
    let body: Body = request.take_body();
    let body = body.into_bytes_limit(CALL_BYTES_MAX).await?;
    let target = request.uri().path_and_query().map_or("", |target| target.as_str());
    let received = Received {
        key: value(&request, header::KEY),
        text: CallText {
            time: value(&request, header::TIME),
            id: value(&request, header::ID),
            method: request.method().as_str(),
            target,
            body: &body,
        },
        signature: value(&request, header::SIGNATURE),
        idempotency_key: value(&request, header::IDEMPOTENCY_KEY),
    };
    let reaction = shared.sandbox.react(&received, shared.clock.now());
    sleep(reaction.after).await;
    Ok(with_status(reaction.status)
        .content_type("application/json")
        .body(reaction.body))
}

async fn page(shared: Shared, mut request: Request) -> poem::Result<Response> {
    let path = request.uri().path().to_owned();
    let mut segments = path.trim_start_matches(PAGES).split('/').skip(1);
    let kind = match segments.next() {
        Some("kyc") => PageKind::Kyc,
        Some("agreement") => PageKind::Agreement,
        _ => return Ok(closed(404)),
    };
    let payer = segments.next().unwrap_or_default();
    // A name that somebody has resolve to this machine is no address of these pages.
    let is_own = |shown: Option<&str>| shown.is_none_or(|shown| shown == &*shared.origin);
    let host = request.header(names::HOST).map(|host| format!("http://{host}"));
    if !is_own(host.as_deref()) || !is_own(request.header(names::ORIGIN)) {
        return Ok(closed(403));
    }
    if request.method() == Method::POST {
        let form = request.take_body().into_bytes_limit(CALL_BYTES_MAX).await?;
        let outcome = form_urlencoded::parse(&form).find(|(name, _)| name == "outcome");
        let outcome = outcome.map(|(_, value)| value.into_owned()).unwrap_or_default();
        let is_there = shared.sandbox.press(kind, payer, &outcome, shared.clock.now());
        let seen = with_status(303).header(names::LOCATION, &path).finish();
        return Ok(if is_there { seen } else { closed(404) });
    }
    let shown = shared.sandbox.page(kind, payer, shared.clock.now());
    Ok(shown.map_or_else(|| closed(404), |shown| with_status(200).of_page(document(kind, &shown))))
}

fn closed(status: u16) -> Response {
    let title = "There is no such page";
    with_status(status).of_page(framed(title, &html! {}))
}

/// An answer that is a page.
trait OfPage {
    fn of_page(self, page: Markup) -> Response;
}

impl OfPage for poem::ResponseBuilder {
    fn of_page(self, page: Markup) -> Response {
        self.content_type("text/html; charset=utf-8")
            .header(names::CONTENT_SECURITY_POLICY, POLICY)
            .header(names::CACHE_CONTROL, "no-store")
            .header(names::X_CONTENT_TYPE_OPTIONS, "nosniff")
            .body(page.into_string())
    }
}

fn document(kind: PageKind, page: &SandboxPage) -> Markup {
    let (title, about) = match kind {
        PageKind::Kyc => (
            "Identity",
            "The partner of `prs dev` asks for no papers: say what it finds.",
        ),
        PageKind::Agreement => (
            "Terms",
            "The partner of `prs dev` has no terms: say what the payer does with them.",
        ),
    };
    let body = html! {
        p { (about) }
        p { "Status: " strong id="status" { (page.status) } }
        form method="post" {
            @for outcome in page.outcomes {
                button type="submit" name="outcome" value=(outcome) { (outcome) } " "
            }
        }
    };
    framed(title, &body)
}

fn framed(title: &str, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
            }
            body { main { h1 { (title) } (body) } }
        }
    }
}
