//! Sending one webhook.

use crate::domain::webhook::TryOutcome;
use async_trait::async_trait;

/// One POST to a receiver.
#[derive(Debug, Clone)]
pub struct OutboundPost {
    /// URL.
    pub url: String,
    /// Additional headers, in order.
    pub headers: Vec<(String, String)>,
    /// Body, sent byte for byte.
    pub body: String,
    /// Whether the request uses a new connection, because a pooled connection may be dead without notice.
    pub is_apart: bool,
}

/// Sends webhooks: no redirects, address checks, a timeout that includes the body, and a maximum response size.
#[async_trait]
pub trait Outbound: Send + Sync + 'static {
    /// Sends once and returns the outcome. Failures are outcomes too, so there is no error.
    async fn post(&self, post: OutboundPost) -> TryOutcome;
}
