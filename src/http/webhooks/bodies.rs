//! Bodies of the operations on endpoints.

use crate::{
    domain::{
        ids::Secret,
        webhook::{OVERLAP_S_DEFAULT, standard_form},
    },
    flows::webhooks::{Endpoint, ShownEndpoint, create::NewEndpoint, rotate::RotatedSecret, test},
    http::operation::*,
};

text! {
    /// Signature key: HMAC-SHA-256 uses these characters as the key.
    SecretText {
        pattern: "^[0-9a-f]{64}$",
        length_max: 64,
        example: "f3c189a4b5e6d7f8a9b0c1d2e3f4a5b6c7d8e9f0a1b2c3d4e5f6a7b8c9d0e1f2",
        hint: "must be 64 hexadecimal digits",
    }
    /// The same key in the Standard Webhooks format.
    StandardSecretText {
        pattern: "^whsec_[0-9A-Za-z+/]{86}==$",
        length_max: 94,
        example: "whsec_ZjNjMTg5YTRiNWU2ZDdmOGE5YjBjMWQyZTNmNGE1YjZjN2Q4ZTlmMGExYjJjM2Q0ZTVmNmE3YjhjOWQwZTFmMg==",
        hint: "must be whsec_ followed by base64",
    }
    /// Prefix of header names.
    HeaderPrefixText {
        pattern: "^[0-9A-Za-z-]{1,32}$",
        length_max: 32,
        example: "x-service",
        hint: "must be a prefix of header names, for example x-service",
    }
    /// URL that receives events. The domain layer decides which hosts are allowed.
    HookUrlText {
        pattern: r"^[Hh][Tt][Tt][Pp][Ss]?://[^\s\x00-\x1f\x7f-\x9f]+$",
        length_max: 2048,
        example: "https://shop.example.com/hooks",
        hint: "must be an absolute https URL, for example https://example.com/hooks",
    }
}

/// A new endpoint.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none, example)]
pub struct CreateWebhookBody {
    /// URL that receives events: https, or http on localhost outside production
    pub url: HookUrlText,
    /// For calls with an API key or a session: the client ID whose events the endpoint receives; if absent, the
    /// endpoint receives the events of the whole platform. A call with a client ID always registers the endpoint for
    /// that client ID. Example: `cli_8Jd2kLmN0pQrStUvWxYz1234567890`
    #[oai(validator(min_length = 1, max_length = 64))]
    pub client_id: Option<String>,
    /// Header prefix for this endpoint, one of the prefixes of the service; if absent, each header is sent with every
    /// prefix. Example: `x-service`
    pub header_prefix: Option<HeaderPrefixText>,
}

impl Example for CreateWebhookBody {
    fn example() -> Self {
        Self {
            url: HookUrlText::example(),
            client_id: None,
            header_prefix: None,
        }
    }
}

/// A new endpoint and its secret.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct WebhookCreated {
    /// Id of the endpoint
    pub id: UlidText,
    /// Secrets
    #[oai(flatten)]
    pub secrets: EndpointSecrets,
}

/// Common data of every endpoint.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none)]
pub struct EndpointFacts {
    /// Id of the endpoint
    pub id: UlidText,
    /// URL that receives events. Example: `https://shop.example.com/hooks`
    #[oai(validator(max_length = 2048))]
    pub url: String,
    /// Whether events are delivered. Example: `true`
    pub is_active: bool,
    /// Time of creation
    pub created_at: Instant,
    /// Header prefix of this endpoint; absent when each header is sent with every prefix of the service. Example: `x-service`
    pub header_prefix: Option<HeaderPrefixText>,
}

impl From<Endpoint> for EndpointFacts {
    fn from(endpoint: Endpoint) -> Self {
        Self {
            id: UlidText::written(endpoint.id.as_str()),
            url: endpoint.url,
            is_active: endpoint.is_active,
            created_at: Instant(endpoint.created_at),
            header_prefix: endpoint.header_prefix.map(HeaderPrefixText::written),
        }
    }
}

/// The secret of an endpoint; it is shown only once.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct EndpointSecrets {
    /// Signature key, shown only once: HMAC-SHA-256 uses these characters as the key
    pub secret: SecretText,
    /// The same key in the Standard Webhooks format
    pub standard_secret: StandardSecretText,
}

impl From<&Secret> for EndpointSecrets {
    fn from(secret: &Secret) -> Self {
        Self {
            secret: SecretText::written(secret.reveal()),
            standard_secret: StandardSecretText::written(standard_form(secret).reveal()),
        }
    }
}

/// An endpoint.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none)]
pub struct Webhook {
    /// Common members
    #[oai(flatten)]
    pub facts: EndpointFacts,
    /// Client ID whose events the endpoint receives; absent when it receives the events of the whole platform.
    /// Example: `cli_8Jd2kLmN0pQrStUvWxYz1234567890`
    #[oai(validator(max_length = 64, pattern = "^cli_[0-9A-Za-z]{30}$"))]
    pub client_id: Option<String>,
    /// Whether the endpoint receives personal data. False for an unapproved endpoint of a public client ID: its events
    /// have null for customer and payer. Example: `true`
    pub is_approved: bool,
}

/// Endpoints.
#[derive(Debug, Clone, Object)]
pub struct WebhookList {
    /// Oldest first, inactive ones included
    #[oai(validator(max_items = 1000))]
    pub webhooks: Vec<Webhook>,
}

/// A test delivery to send.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none, example)]
pub struct TestWebhookBody {
    /// Event type: any webhook event except `client_id.linked` and `kyt.screening.completed`, which only orchestrators receive. Example: `payment.confirmed`
    #[oai(validator(min_length = 1, max_length = 64))]
    pub event_type: String,
    /// For calls with an API key or a session: the client ID whose endpoints are tested; if absent, the endpoints that
    /// receive the events of the whole platform. Example: `cli_8Jd2kLmN0pQrStUvWxYz1234567890`
    #[oai(validator(min_length = 1, max_length = 64))]
    pub client_id: Option<String>,
}

impl Example for TestWebhookBody {
    fn example() -> Self {
        Self {
            event_type: "payment.confirmed".to_owned(),
            client_id: None,
        }
    }
}

/// Options for rotating a secret.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none)]
pub struct RotateSecretBody {
    /// Seconds for which the old secret stays valid, at most 7 days. Default: one day. With 0, the old secret and every
    /// earlier one end immediately. Example: `86400`
    #[oai(validator(minimum(value = "0"), maximum(value = "604800")))]
    pub overlap_seconds: Option<u32>,
}

/// The new secret of an endpoint.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct SecretRotated {
    /// Id of the endpoint
    pub id: UlidText,
    /// The new secrets
    #[oai(flatten)]
    pub secrets: EndpointSecrets,
    /// Until when the old secret is valid
    pub previous_valid_until: Instant,
}

impl RotateSecretBody {
    /// The requested overlap, or the default.
    pub(super) fn overlap_s(&self) -> u32 {
        self.overlap_seconds.unwrap_or(OVERLAP_S_DEFAULT)
    }
}

/// Result of a test.
#[derive(Debug, Clone, Object)]
pub struct TestResult {
    /// Endpoints that returned 2xx. Example: `1`
    pub sent: u32,
    /// Endpoints that failed. Example: `0`
    pub failed: u32,
}

impl From<test::TestCounts> for TestResult {
    fn from(result: test::TestCounts) -> Self {
        Self {
            sent: result.sent,
            failed: result.failed,
        }
    }
}

impl From<ShownEndpoint> for Webhook {
    fn from(shown: ShownEndpoint) -> Self {
        Self {
            is_approved: shown.endpoint.is_approved,
            facts: shown.endpoint.into(),
            client_id: shown.client_id,
        }
    }
}

pub(super) fn created(new: &NewEndpoint) -> WebhookCreated {
    WebhookCreated {
        id: UlidText::written(new.endpoint.id.as_str()),
        secrets: (&new.secret).into(),
    }
}

pub(super) fn rotated(rotated: &RotatedSecret) -> SecretRotated {
    SecretRotated {
        id: UlidText::written(rotated.id.as_str()),
        secrets: (&rotated.secret).into(),
        previous_valid_until: Instant(rotated.former_until),
    }
}
