//! Event bodies about endpoints, sent to their owners.

use super::{forms::timestamp, pattern, placeholders as sample};
use crate::domain::event::WebhookDisabled;
use schemars::JsonSchema;
use serde::Serialize;

/// An endpoint was switched off.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebhookDisabledBody {
    /// Name of the event.
    #[schemars(extend("enum" = ["webhook.disabled"], "examples" = ["webhook.disabled"]))]
    pub event: &'static str,
    /// The endpoint.
    #[schemars(length(max = 26), regex(pattern = pattern::ULID), extend("examples" = [sample::WEBHOOK_ID]))]
    pub webhook_id: String,
    /// Client ID whose events the endpoint received; null when the endpoint received the events of its whole owner.
    #[schemars(length(max = 34), regex(pattern = pattern::CLIENT_ID), extend("examples" = [sample::CLIENT_ID]))]
    pub client_id: Option<String>,
    /// Host of its URL.
    #[schemars(length(max = 255), extend("examples" = ["shop.example.com"]))]
    pub host: String,
    /// Start of the period in which every delivery failed.
    #[schemars(length(max = 24), extend("format" = "date-time", "examples" = ["2030-01-26T12:00:00.000Z"]))]
    pub failing_since: String,
    /// When it was switched off.
    #[schemars(length(max = 24), extend("format" = "date-time", "examples" = [sample::TIME]))]
    pub timestamp: String,
}

pub(super) fn disabled(facts: &WebhookDisabled) -> WebhookDisabledBody {
    WebhookDisabledBody {
        event: "webhook.disabled",
        webhook_id: facts.endpoint.to_string(),
        client_id: facts.client_id.clone(),
        host: facts.host.clone(),
        failing_since: timestamp(facts.failing_since),
        timestamp: timestamp(facts.at),
    }
}

pub(super) fn disabled_sample() -> WebhookDisabledBody {
    WebhookDisabledBody {
        event: "webhook.disabled",
        webhook_id: sample::WEBHOOK_ID.to_owned(),
        client_id: Some(sample::CLIENT_ID.to_owned()),
        host: "shop.example.com".to_owned(),
        failing_since: "2030-01-26T12:00:00.000Z".to_owned(),
        timestamp: sample::TIME.to_owned(),
    }
}
