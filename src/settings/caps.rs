//! Caps on the share of common resources that one platform or orchestrator may use.

use crate::domain::caps::Caps;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Caps for one platform or orchestrator. Payment events are recorded and queued regardless of caps.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CapSettings {
    /// Maximum number of webhook endpoints, including inactive ones and those of client IDs, not counting unapproved
    /// ones. Registering more returns 409.
    #[schemars(range(min = 1, max = 1_000))]
    pub endpoints: u64,
    /// Maximum number of unapproved webhook endpoints for each public client ID. Registering more returns 409.
    #[schemars(range(min = 1, max = 100))]
    pub unapproved_endpoints: u64,
    /// Maximum number of valid API keys of a platform. Creating more returns 409; operator commands can exceed it.
    #[schemars(range(min = 1, max = 1_000))]
    pub api_keys: u64,
    /// Maximum number of client IDs of a platform, not counting revoked ones. Creating more returns 409.
    #[schemars(range(min = 1, max = 100_000))]
    pub client_ids: u64,
    /// Maximum number of open event streams of a platform on one instance. Opening more returns 429. All platforms
    /// together may have 256 streams on one instance. A platform gets another stream only if its number of streams is
    /// then at most seven times the number of streams that remain free. For its first stream, one free stream is
    /// enough.
    #[schemars(range(min = 1, max = 256))]
    pub event_streams: u64,
    /// Maximum number of due deliveries of a platform or orchestrator that wait to be sent. While this number is
    /// reached, replays and tests return 429; events are still queued.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub due_deliveries: u64,
    /// Maximum number of live recurring payments of a platform: signed, and neither completed nor cancelled. Activating
    /// more returns 409. Each payment costs the relayer gas.
    #[schemars(range(min = 1, max = 100_000))]
    pub schedules: u64,
    /// Maximum number of live recurring payments created with one public client ID. Activating more returns 409.
    #[schemars(range(min = 1, max = 100_000))]
    pub public_schedules: u64,
    /// Maximum number of open requests (pending or partially paid) that keys, sessions and backend client IDs of a
    /// platform created. A request of a link counts while the link can be paid; other requests count for
    /// `caps.open_request_days`. A call that would exceed the maximum returns 429.
    #[schemars(range(min = 1, max = 10_000_000))]
    pub open_requests: u64,
    /// Maximum number of open requests created with one public client ID. These requests do not count towards
    /// `caps.open_requests`. A call that would exceed the maximum returns 429.
    #[schemars(range(min = 1, max = 10_000_000))]
    pub public_open_requests: u64,
    /// Number of days after creation for which an open request without a link counts towards `caps.open_requests` or
    /// `caps.public_open_requests`. The request can still be paid afterwards.
    #[schemars(range(min = 1, max = 36_500))]
    pub open_request_days: u32,
    /// Maximum number of reports that payment pages send about the steps of their visitors, per hour and instance, for
    /// all links created with one public client ID. Further reports get 429. The cap exists because anyone who copies
    /// such a client ID from a page can create links with it.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub public_reports: u32,
    /// Maximum number of reports that payment pages send about the steps of their visitors, per hour and instance, from
    /// one address about all links. Further reports get 429. Reports that a platform sends about its own links, with a
    /// key or a backend client ID, do not count.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub reports_of_address: u32,
    /// Maximum number of bank accounts of a payer, not counting failed ones. Adding more returns 409.
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
