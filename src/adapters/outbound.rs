//! Sends webhooks: guarded addresses, no redirects, one deadline for everything, a capped answer.

use crate::{
    domain::webhook::{RESPONSE_BYTES_MAX, TRY_TIMEOUT_MS, TryOutcome, UrlPolicy},
    ports::{
        clock::Clock,
        outbound::{Outbound, OutboundPost},
    },
};
use anyhow::Context;
use async_trait::async_trait;
use futures_util::StreamExt;
use reqwest::{
    Client, Url,
    dns::{Addrs, Name, Resolve, Resolving},
    header::{CONTENT_TYPE, HeaderName, HeaderValue},
    redirect::Policy,
};
use std::{net::SocketAddr, sync::Arc, time::Duration};
use tokio::time::{Instant, timeout_at};

/// Part of an answer that is kept for the log.
const KEPT_BYTES_MAX: usize = 1_024;

/// Sends over a pool of kept connections.
pub struct HttpOutbound {
    client: Client,
    policy: UrlPolicy,
    clock: Arc<dyn Clock>,
}

impl HttpOutbound {
    /// Builds the client; proxies of the environment are ignored, since a proxy would reach what the guard refuses.
    pub fn new(policy: UrlPolicy, clock: Arc<dyn Clock>) -> anyhow::Result<Self> {
        super::install_tls();
        let client = Client::builder()
            .dns_resolver(Arc::new(GuardedResolver { policy }))
            .redirect(Policy::none())
            .no_proxy()
            .tcp_nodelay(true)
            .connect_timeout(Duration::from_millis(TRY_TIMEOUT_MS))
            .pool_max_idle_per_host(32)
            .user_agent("payment-request-service")
            .build()
            .context("HTTP client of the webhooks")?;
        Ok(Self { client, policy, clock })
    }

    async fn answer(&self, post: &OutboundPost, deadline: Instant) -> Result<(u16, Vec<u8>), String> {
        // A literal address never reaches the resolver, so it is judged here, again and again: settings may have changed.
        let url: Url = self
            .policy
            .check(&post.url)
            .map_err(|reason| format!("refused: the URL {reason}"))?;
        let mut request = self.client.post(url).header(CONTENT_TYPE, "application/json");
        for (name, value) in &post.headers {
            let name: HeaderName = name
                .parse()
                .map_err(|_| "refused: a header name is not valid".to_owned())?;
            let value: HeaderValue = value
                .parse()
                .map_err(|_| "refused: a header value is not valid".to_owned())?;
            request = request.header(name, value);
        }
        let sent = timeout_at(deadline, request.body(post.body.clone()).send()).await;
        let response = sent.map_err(|_| out_of_time())?.map_err(|error| reason(&error))?;
        let status = response.status().as_u16();
        let mut body = Vec::new();
        let mut chunks = response.bytes_stream();
        // A body beyond the cap is cut off; one that does not end in time makes the try fail.
        while body.len() < RESPONSE_BYTES_MAX {
            match timeout_at(deadline, chunks.next()).await.map_err(|_| out_of_time())? {
                Some(Ok(chunk)) => body.extend_from_slice(&chunk),
                Some(Err(error)) => return Err(reason(&error)),
                None => break,
            }
        }
        Ok((status, body))
    }
}

fn out_of_time() -> String {
    format!("no complete answer within {TRY_TIMEOUT_MS} ms")
}

/// The innermost cause, which names the problem without the address.
fn reason(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

#[async_trait]
impl Outbound for HttpOutbound {
    async fn post(&self, post: OutboundPost) -> TryOutcome {
        let started_at = self.clock.now();
        let deadline = Instant::now() + Duration::from_millis(TRY_TIMEOUT_MS);
        let answer = self.answer(&post, deadline).await;
        let ended_at = self.clock.now();
        match answer {
            Ok((status, body)) => {
                let kept = &body[..body.len().min(KEPT_BYTES_MAX)];
                let response = Some(String::from_utf8_lossy(kept).replace('\0', "\u{fffd}"));
                TryOutcome {
                    status: Some(status),
                    error: None,
                    response,
                    started_at,
                    ended_at,
                }
            }
            Err(error) => TryOutcome {
                status: None,
                error: Some(error),
                response: None,
                started_at,
                ended_at,
            },
        }
    }
}

/// Resolves names and refuses them when any of their addresses may not be connected to: the connection goes to exactly
/// the addresses that were judged, so a name that changes its mind in between gains nothing.
struct GuardedResolver {
    policy: UrlPolicy,
}

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let policy = self.policy;
        Box::pin(async move {
            let found: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            if found.is_empty() {
                return Err("the name has no address".into());
            }
            if found.iter().any(|address| !policy.admits(address.ip())) {
                return Err("refused: the name has an address in a private or reserved range".into());
            }
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}
