//! How much of what all share one platform or orchestrator may have.

use crate::domain::caps::Caps;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What one platform or orchestrator may have. Events of payments are told and queued whatever is capped.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CapSettings {
    /// Webhook endpoints, inactive ones and those of client IDs included; not those that wait for approval. One more is a
    /// 409.
    #[schemars(range(min = 1, max = 1_000))]
    pub endpoints: u64,
    /// Webhook endpoints that a public client ID registered and nobody approved, for each such client ID. One more is a
    /// 409.
    #[schemars(range(min = 1, max = 100))]
    pub unapproved_endpoints: u64,
    /// API keys of a platform that are good. One more is a 409; the operator's commands make them beyond it.
    #[schemars(range(min = 1, max = 1_000))]
    pub api_keys: u64,
    /// Client IDs of a platform that are not revoked. One more is a 409.
    #[schemars(range(min = 1, max = 100_000))]
    pub client_ids: u64,
    /// Event streams of a platform that are open on one instance. One more is a 429; all platforms together may have 256, the
    /// last 32 of which are for platforms that have none.
    #[schemars(range(min = 1, max = 256))]
    pub event_streams: u64,
    /// Deliveries that are due and wait for their turn. As long as there are so many, replays and tests are a 429; events
    /// are queued all the same.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub due_deliveries: u64,
    /// Live recurring payments of a platform: signed, and neither completed nor cancelled. With so many, the next one is a
    /// 409. Each of their payments costs gas of the relayer.
    #[schemars(range(min = 1, max = 100_000))]
    pub schedules: u64,
    /// The same of those that a public client ID made, for each such client ID.
    #[schemars(range(min = 1, max = 100_000))]
    pub public_schedules: u64,
    /// Requests that await payment and that keys, sessions and backend client IDs of a platform made: pending or paid in
    /// part, those of links as long as their link can be paid and others for `caps.open_request_days`. A call that would
    /// make it more is a 429.
    #[schemars(range(min = 1, max = 10_000_000))]
    pub open_requests: u64,
    /// The same of those that a public client ID made, for each such client ID. They take nothing from what the platform may
    /// have.
    #[schemars(range(min = 1, max = 10_000_000))]
    pub public_open_requests: u64,
    /// Days after its creation for which a request that awaits payment and that no link pays counts for these two. It can be
    /// paid afterwards as before.
    #[schemars(range(min = 1, max = 36_500))]
    pub open_request_days: u32,
    /// Reports of payment pages in an hour about all links that one public client ID made, on one instance. One more is a
    /// 429: whoever reads such a client ID off a page makes links as he likes.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub public_reports: u32,
    /// Reports of payment pages in an hour from one address about all links, on one instance; those of a platform about its
    /// own links, by a key or a backend client ID, not counted. One more is a 429.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub reports_of_address: u32,
    /// Bank accounts of a payer, without those that failed. One more is a 409.
    #[schemars(range(min = 1, max = 1_000))]
    pub bank_accounts: u64,
}

impl Default for CapSettings {
    fn default() -> Self {
        Self {
            endpoints: 100,
            unapproved_endpoints: 5,
            api_keys: 50,
            client_ids: 1_000,
            event_streams: 32,
            due_deliveries: 10_000,
            schedules: 1_000,
            public_schedules: 20,
            open_requests: 100_000,
            public_open_requests: 10_000,
            open_request_days: 30,
            public_reports: 2_000,
            reports_of_address: 200,
            bank_accounts: 20,
        }
    }
}

impl From<&CapSettings> for Caps {
    fn from(settings: &CapSettings) -> Self {
        Self {
            endpoints: settings.endpoints,
            unapproved_endpoints: settings.unapproved_endpoints,
            api_keys: settings.api_keys,
            client_ids: settings.client_ids,
            event_streams: settings.event_streams,
            due_deliveries: settings.due_deliveries,
            schedules: settings.schedules,
            public_schedules: settings.public_schedules,
            open_requests: settings.open_requests,
            public_open_requests: settings.public_open_requests,
            open_request_days: settings.open_request_days,
            public_reports: settings.public_reports,
            reports_of_address: settings.reports_of_address,
            bank_accounts: settings.bank_accounts,
        }
    }
}
