//! The feed of rates of `prs dev`, over loopback HTTP, so that what reads it is what reads a real one.

use crate::{
    adapters::rates::sandbox::RateSandbox,
    http::{
        edge::server::{self, ServerOptions, Shutdown},
        error::probed,
    },
};
use poem::{Request, Response, Route, endpoint::make_sync, get};
use std::sync::Arc;
use tokio::net::TcpListener;
use url::form_urlencoded;

/// Where the feed has its simple prices, as the real one.
const PATH: &str = "/api/v3/simple/price";

/// Takes a free port; returns the address of the feed, which answers once it is served.
pub(super) async fn bind() -> std::io::Result<(TcpListener, String)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}{PATH}", listener.local_addr()?);
    Ok((listener, url))
}

/// Serves the feed until the process ends.
pub(super) fn serve(listener: TcpListener, sandbox: Arc<RateSandbox>) {
    let prices = make_sync(move |request: Request| answer(&sandbox, &request));
    let routes = Route::new().at(PATH, get(prices));
    tokio::spawn(async move {
        let served = server::serve(vec![listener], routes, ServerOptions::default(), Shutdown::default());
        if let Err(error) = served.await {
            tracing::error!(%error, "the sandbox of rates ended");
        }
    });
}

fn answer(sandbox: &RateSandbox, request: &Request) -> Response {
    let query = request.uri().query().unwrap_or_default().as_bytes();
    let asked = |name: &str| {
        let found = form_urlencoded::parse(query).find(|(known, _)| known == name);
        found.map(|(_, value)| value.into_owned()).unwrap_or_default()
    };
    let told = sandbox.answer(&asked("ids"), &asked("vs_currencies"));
    Response::builder()
        .status(probed(told.is_some()))
        .content_type("application/json")
        .body(told.unwrap_or_default())
}
