//! Sending one webhook.

use crate::domain::webhook::TryOutcome;
use async_trait::async_trait;

/// One POST to a receiver.
#[derive(Debug, Clone)]
pub struct OutboundPost {
    /// Where to.
    pub url: String,
    /// Headers besides the usual ones, in order.
    pub headers: Vec<(String, String)>,
    /// Body, sent byte for byte.
    pub body: String,
    /// Whether it goes over a connection of its own: those that are kept may be dead without having said so.
    pub is_apart: bool,
}

/// Sends webhooks: no redirects, guarded addresses, a deadline that includes the body, a capped answer.
#[async_trait]
pub trait Outbound: Send + Sync + 'static {
    /// Sends once and tells what came of it; never fails otherwise.
    async fn post(&self, post: OutboundPost) -> TryOutcome;
}
