//! The rate feed of `prs dev`. The service reads it over loopback HTTP, like a real feed.

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

/// Path of the prices, as in the real feed.
const PATH: &str = "/api/v3/simple/price";

/// Binds a free port and returns the URL of the feed. The feed responds after [`serve`] is called.
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
            tracing::error!(%error, "the rates sandbox stopped");
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
