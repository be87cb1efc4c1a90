//! Delivery of events, and their headers.

use crate::domain::{client_id::EndpointManagers, recovery::RecoverySchedule};
use anyhow::{anyhow, bail};
use chrono::TimeDelta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Delivery of events.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WebhookSettings {
    /// Prefix of the webhook headers, or a list of at most four prefixes. Each header is sent with every prefix, unless
    /// the endpoint selected one prefix.
    pub header_prefix: HeaderPrefix,
    /// Whether deliveries also carry the Standard Webhooks headers (`webhook-id`, `webhook-timestamp`,
    /// `webhook-signature`).
    pub standard_headers: bool,
    /// Whether http endpoints on localhost, 127.0.0.1 and [::1] are accepted. Default: yes outside production, no in
    /// production.
    pub allow_loopback: Option<bool>,
    /// Maximum number of concurrent deliveries.
    #[schemars(range(min = 1, max = 10_000))]
    pub concurrency: usize,
    /// Maximum number of concurrent deliveries to one endpoint.
    #[schemars(range(min = 1, max = 1_000))]
    pub concurrency_per_endpoint: usize,
    /// Whether a confirmed or partial payment sends further events in addition to the plain one: `….client_id` if a
    /// client ID created the request, `….checkout` if a secure payment did.
    pub scoped_variants: bool,
    /// Whether `payment.reversed` is sent when a credited payment leaves the chain. The request is recalculated in
    /// either case. If false, the service neither revokes nor repeats events: when the payment is included again, it
    /// sends an event only if the payment completes a request that was never reported as confirmed.
    pub reversals: bool,
    /// Start times of further rounds of attempts after the four attempts of a delivery failed: ascending numbers of
    /// seconds after the fourth attempt, at most 20 entries, `[]` for no further round. Each round has four attempts of
    /// the same delivery, marked as a replay. An endpoint that recovers receives its failed deliveries immediately.
    pub recovery_rounds_s: Vec<u32>,
    /// Days of failed attempts after which an endpoint is switched off; 0 means never. The owner is notified by
    /// `webhook.disabled` and can switch it on again.
    #[schemars(range(min = 0, max = 365))]
    pub disable_after_days: u32,
    /// Which client IDs may register, list, switch, delete and test endpoints: `all`, `backend` (those without allowed
    /// domains), or `off`. API keys and sessions always may. With `all`, a public client ID (one with allowed domains)
    /// sees only its own unapproved endpoints.
    pub client_id_management: ClientIdManagement,
    /// Days for which events and finished deliveries are stored. On PostgreSQL, all data of a month is deleted at once
    /// when the end of the month is that old.
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

/// Header prefixes that HTTP, proxies and browsers use.
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
            bail!("webhooks.header_prefix: {prefix} is a prefix of standard HTTP headers; choose another one");
        }
        let is_signature = |prefix: &&String| prefix.split('-').any(|word| word == "signature");
        if let Some(prefix) = prefixes.iter().find(is_signature) {
            bail!("webhooks.header_prefix: {prefix} could be mistaken for the signature header; choose another one");
        }
        if has_standard && prefixes.iter().any(|prefix| prefix == "webhook") {
            bail!("webhooks.header_prefix: webhook is the prefix of Standard Webhooks; choose another one");
        }
        Ok(())
    }
}

impl WebhookSettings {
    /// Schedule of further rounds. Errors: an invalid list.
    pub fn recovery(&self) -> anyhow::Result<RecoverySchedule> {
        RecoverySchedule::new(&self.recovery_rounds_s)
            .map_err(|sentence| anyhow!("webhooks.recovery_rounds_s: {sentence}"))
    }

    /// How long an endpoint may fail before it is switched off; `None` for no limit.
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
