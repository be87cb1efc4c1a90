//! The screening providers of `prs dev`. The service calls them over loopback HTTP, like real providers.

use crate::{
    adapters::screening::sandbox::{SandboxReaction, ScreeningSandbox},
    domain::destination::ScreeningProvider,
    http::{
        edge::server::{self, ServerOptions, Shutdown},
        error::probed,
    },
};
use poem::{Body, Response, Route, endpoint::make, post};
use std::{net::SocketAddr, sync::Arc, time::Duration};
use tokio::{net::TcpListener, time::sleep};

/// Paths of the screening calls, as in the real providers.
const PATHS: [(&str, ScreeningProvider); 2] = [
    ("/screener/reputation", ScreeningProvider::Hypernative),
    ("/api/v4.2/addresses/", ScreeningProvider::Merklescience),
];

/// How long a call hangs: longer than any timeout.
const HANGS: Duration = Duration::from_secs(20);

/// Maximum size of a request body.
const QUESTION_BYTES_MAX: usize = 64 * 1024;

/// A free port of this machine for the providers.
pub(super) struct Bound {
    listener: TcpListener,
    address: SocketAddr,
}

/// Binds a free port. The providers respond after [`Bound::serve`] is called.
pub(super) async fn bind() -> std::io::Result<Bound> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    Ok(Bound { listener, address })
}

impl Bound {
    /// The URL of every provider.
    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Serves the providers until the process ends.
    pub(super) fn serve(self, sandbox: Arc<ScreeningSandbox>) {
        let mut routes = Route::new();
        for (path, provider) in PATHS {
            let sandbox = sandbox.clone();
            let answers = make(move |mut request| {
                let (sandbox, body) = (sandbox.clone(), request.take_body());
                async move { answer(&sandbox, provider, body).await }
            });
            routes = routes.at(path, post(answers));
        }
        tokio::spawn(async move {
            let served = server::serve(
                vec![self.listener],
                routes,
                ServerOptions::default(),
                Shutdown::default(),
            );
            if let Err(error) = served.await {
                tracing::error!(%error, "the screening sandbox stopped");
            }
        });
    }
}

async fn answer(sandbox: &ScreeningSandbox, provider: ScreeningProvider, body: Body) -> poem::Result<Response> {
    let question = body.into_bytes_limit(QUESTION_BYTES_MAX).await?;
    let told = match sandbox.react(provider, &String::from_utf8_lossy(&question)) {
        SandboxReaction::Answers(told) => Some(told),
        SandboxReaction::Fails => None,
        SandboxReaction::Hangs => {
            sleep(HANGS).await;
            None
        }
    };
    let response = Response::builder().status(probed(told.is_some()));
    Ok(response.content_type("application/json").body(told.unwrap_or_default()))
}
