//! How events are delivered, and under which headers.

use crate::domain::{client_id::EndpointManagers, recovery::RecoverySchedule};
use anyhow::{anyhow, bail};
use chrono::TimeDelta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Delivery of events.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WebhookSettings {
    /// Prefix of the webhook headers, or a list of at most four: each header is sent under every one of them, unless an
    /// endpoint chose one.
    pub header_prefix: HeaderPrefix,
    /// Whether deliveries carry the headers of Standard Webhooks (`webhook-id`, `webhook-timestamp`, `webhook-signature`)
    /// beside the others.
    pub standard_headers: bool,
    /// Whether http endpoints on localhost, 127.0.0.1 and [::1] are accepted; absent, outside production.
    pub allow_loopback: Option<bool>,
    /// Deliveries that are sent at the same time.
    #[schemars(range(min = 1, max = 10_000))]
    pub concurrency: usize,
    /// Deliveries that one endpoint receives at the same time.
    #[schemars(range(min = 1, max = 1_000))]
    pub concurrency_per_endpoint: usize,
    /// Whether a confirmed or partial payment raises further events besides the plain one: `….client_id` when a client
    /// ID created the request, `….checkout` when a secure payment did.
    pub scoped_variants: bool,
    /// Whether `payment.reversed` is sent when a credited payment left the chain. The request is counted again either
    /// way. Without it nothing that was told is taken back, so nothing is told twice: a payment that returns raises an
    /// event only when it completes a request that was never told as confirmed.
    pub reversals: bool,
    /// When a delivery is tried in further rounds after its four tries failed: seconds after the fourth one, ascending, at
    /// most 20; `[]` for none. Each round is four tries of the same delivery, marked as a replay. An endpoint that answers
    /// again gets what waits for it at once.
    pub recovery_rounds_s: Vec<u32>,
    /// Days for which every try to an endpoint may fail before it is switched off; 0 for ever. Its owner
    /// learns of it from `webhook.disabled` and switches it on again.
    #[schemars(range(min = 0, max = 365))]
    pub disable_after_days: u32,
    /// Which client IDs may register, list, switch, delete and test endpoints: `all`, `backend` for those without allowed
    /// domains, or `off`. API keys and sessions always may. Under `all` a public client ID, one with allowed domains, sees
    /// only the endpoints that it registered and nobody approved.
    pub client_id_management: ClientIdManagement,
    /// Days that events and finished deliveries are kept; PostgreSQL drops them by the month, when its end is that old.
    #[schemars(range(min = 1, max = 3_650))]
    pub retention_days: u32,
}

impl Default for WebhookSettings {
    fn default() -> Self {
        Self {
            header_prefix: HeaderPrefix::One("x-service".to_owned()),
            standard_headers: true,
            allow_loopback: None,
            concurrency: 256,
            concurrency_per_endpoint: 16,
            scoped_variants: false,
            reversals: true,
            recovery_rounds_s: vec![60, 300, 1_800, 7_200, 21_600, 86_400, 172_800],
            disable_after_days: 5,
            client_id_management: ClientIdManagement::default(),
            retention_days: 30,
        }
    }
}

/// Beginnings of headers that HTTP, its proxies and browsers read.
const HTTP_FAMILIES: [&str; 18] = [
    "accept",
    "access-control",
    "authorization",
    "cache-control",
    "connection",
    "content",
    "cookie",
    "expect",
    "forwarded",
    "host",
    "if",
    "proxy",
    "range",
    "sec",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "x-forwarded",
];

/// One prefix, or several.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "must be letters, digits and single dashes, for example x-service, or a list of up to four different ones"
)]
pub enum HeaderPrefix {
    /// The only one.
    One(String),
    /// All of them.
    Several(Vec<String>),
}

impl HeaderPrefix {
    /// All of them.
    pub fn list(&self) -> Vec<String> {
        match self {
            Self::One(prefix) => vec![prefix.clone()],
            Self::Several(prefixes) => prefixes.clone(),
        }
    }

    pub(super) fn validate(&self, has_standard: bool) -> anyhow::Result<()> {
        let prefixes: Vec<String> = self.list().iter().map(|prefix| prefix.to_lowercase()).collect();
        let is_name = |prefix: &String| {
            let is_word = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric());
            prefix.len() <= 32 && prefix.split('-').all(is_word)
        };
        let mut different = prefixes.clone();
        different.sort_unstable();
        different.dedup();
        if !(1..=4).contains(&prefixes.len()) || !prefixes.iter().all(is_name) || different.len() < prefixes.len() {
            bail!(
                "webhooks.header_prefix: must be letters, digits and single dashes, for example x-service, or a list of up \
                 to four different ones"
            );
        }
        let is_of_http = |prefix: &&String| {
            let mut rests = HTTP_FAMILIES.iter().filter_map(|family| prefix.strip_prefix(family));
            rests.any(|rest| rest.is_empty() || rest.starts_with('-'))
        };
        if let Some(prefix) = prefixes.iter().find(is_of_http) {
            bail!("webhooks.header_prefix: {prefix} begins names of headers of HTTP; choose another one");
        }
        let is_signature = |prefix: &&String| prefix.split('-').any(|word| word == "signature");
        if let Some(prefix) = prefixes.iter().find(is_signature) {
            bail!("webhooks.header_prefix: {prefix} would be taken for the header of a signature; choose another one");
        }
        if has_standard && prefixes.iter().any(|prefix| prefix == "webhook") {
            bail!("webhooks.header_prefix: webhook is the prefix of Standard Webhooks; choose another one");
        }
        Ok(())
    }
}

impl WebhookSettings {
    /// When further rounds come. Errors: a list that is no schedule.
    pub fn recovery(&self) -> anyhow::Result<RecoverySchedule> {
        RecoverySchedule::new(&self.recovery_rounds_s)
            .map_err(|sentence| anyhow!("webhooks.recovery_rounds_s: {sentence}"))
    }

    /// For how long an endpoint may take nothing; none for ever.
    pub fn disable_after(&self) -> Option<TimeDelta> {
        let days = i64::from(self.disable_after_days);
        (days > 0).then(|| TimeDelta::days(days))
    }
}

/// Which client IDs may manage endpoints.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ClientIdManagement {
    /// Every client ID.
    #[default]
    All,
    /// Client IDs without allowed domains.
    Backend,
    /// None.
    Off,
}

impl From<ClientIdManagement> for EndpointManagers {
    fn from(setting: ClientIdManagement) -> Self {
        match setting {
            ClientIdManagement::All => Self::All,
            ClientIdManagement::Backend => Self::Backend,
            ClientIdManagement::Off => Self::Off,
        }
    }
}
