//! Caps on the share of common resources that one platform or orchestrator may use.

use super::refusal::{Refusal, RefusalKind};
use chrono::{DateTime, TimeDelta, Utc};
use std::time::Duration;

/// Seconds after which a caller should retry when due deliveries have reached their cap.
const DUE_RETRY_AFTER_S: u32 = 10;

/// Seconds after which a caller should retry when open event streams have reached their cap.
const STREAMS_RETRY_AFTER_S: u32 = 1;

/// Seconds after which a caller should retry when open requests have reached their cap.
const OPEN_RETRY_AFTER_S: u32 = 60;

/// The caps of every owner (platform or orchestrator), as set by the operator. Payment events are sent regardless of
/// caps.
#[derive(Debug, Clone, Copy)]
pub struct Caps {
    /// Maximum number of webhook endpoints of an owner. Inactive endpoints and the endpoints of its client IDs count;
    /// endpoints that wait for approval do not.
    pub endpoints: u64,
    /// Maximum number of webhook endpoints of a public client ID that wait for approval.
    pub unapproved_endpoints: u64,
    /// Valid API keys.
    pub api_keys: u64,
    /// Maximum number of client IDs of a platform. Revoked client IDs do not count.
    pub client_ids: u64,
    /// Maximum number of open event streams of a platform on one instance.
    pub event_streams: u64,
    /// An owner with at least this number of due webhook deliveries cannot request replays or test deliveries.
    pub due_deliveries: u64,
    /// Maximum number of live recurring payments of a platform.
    pub schedules: u64,
    /// Maximum number of live recurring payments that a public client ID created.
    pub public_schedules: u64,
    /// Maximum number of open requests of a platform. Requests of its links count. Requests that its public client IDs
    /// created do not count.
    pub open_requests: u64,
    /// Maximum number of open requests that one public client ID created. Requests of its links count.
    pub public_open_requests: u64,
    /// An open request that belongs to no link counts towards the caps for this number of days after its creation.
    pub open_request_days: u32,
    /// Maximum number of reports per hour that payment pages may send about the links of one public client ID.
    pub public_reports: u32,
    /// Maximum number of reports per hour that payment pages may send from one IP address.
    pub reports_of_address: u32,
    /// Bank accounts of a payer.
    pub bank_accounts: u64,
}

/// Number of recurring payments that are signed and have not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LiveScheduleCounts {
    /// Those of the platform.
    pub of_platform: u64,
    /// Live recurring payments of the public client ID that created the recurring payment to be activated. 0 if no
    /// public client ID created that recurring payment.
    pub of_public_client: u64,
}

impl Caps {
    /// Checks the number of endpoints of an owner. Errors: more than the cap (409).
    pub fn admit_endpoints(&self, count: u64) -> Result<(), Refusal> {
        let way_out = "delete an endpoint before you add another";
        at_most(count, self.endpoints, "webhook endpoints", "caps.endpoints", way_out)
    }

    /// Checks the number of unapproved endpoints of a public client ID. Errors: more than the cap (409).
    pub fn admit_unapproved_endpoints(&self, count: u64) -> Result<(), Refusal> {
        let (what, setting) = (
            "unapproved webhook endpoints per public client ID",
            "caps.unapproved_endpoints",
        );
        let way_out = "delete an endpoint, or have one approved with an API key or a session";
        at_most(count, self.unapproved_endpoints, what, setting, way_out)
    }

    /// Checks the number of valid keys of a platform. Errors: more than the cap (409).
    pub fn admit_api_keys(&self, count: u64) -> Result<(), Refusal> {
        let way_out = "revoke a key first (a rotated key counts until its overlap ends)";
        at_most(count, self.api_keys, "API keys", "caps.api_keys", way_out)
    }

    /// Checks the number of client IDs of a platform. Errors: more than the cap (409).
    pub fn admit_client_ids(&self, count: u64) -> Result<(), Refusal> {
        let way_out = "revoke a client ID before you create another";
        at_most(count, self.client_ids, "client IDs", "caps.client_ids", way_out)
    }

    /// Checks whether a recurring payment may begin in addition to the live ones. Errors: a cap is reached (409).
    pub fn admit_another_schedule(&self, live: LiveScheduleCounts) -> Result<(), Refusal> {
        let way_out = "cancel a recurring payment, or wait until one is completed";
        let (what, setting) = ("live recurring payments per platform", "caps.schedules");
        at_most(live.of_platform + 1, self.schedules, what, setting, way_out)?;
        let (what, setting) = ("live recurring payments per public client ID", "caps.public_schedules");
        at_most(live.of_public_client + 1, self.public_schedules, what, setting, way_out)
    }

    /// Checks the number of open requests of a platform, not counting those of its public client IDs. Errors: more than
    /// the cap (429).
    pub fn admit_open_requests(&self, count: u64) -> Result<(), Refusal> {
        let what = "open requests and link items per platform, not counting those of its public client IDs";
        self.open_at_most(count, self.open_requests, what, "caps.open_requests")
    }

    /// Checks the number of open requests of a public client ID. Errors: more than the cap (429).
    pub fn admit_public_open_requests(&self, count: u64) -> Result<(), Refusal> {
        let what = "open requests and link items per public client ID";
        self.open_at_most(count, self.public_open_requests, what, "caps.public_open_requests")
    }

    fn open_at_most(&self, count: u64, cap: u64, what: &str, setting: &str) -> Result<(), Refusal> {
        let days = self.open_request_days;
        let way_out = format!(
            "cancel requests and withdraw links that will not be paid, or wait until some are paid or expire (a request \
             without a link counts for {days} days, caps.open_request_days)"
        );
        at_most(count, cap, what, setting, &way_out)
            .map_err(|refusal| Refusal::new(RefusalKind::TooMany, refusal.message).after(OPEN_RETRY_AFTER_S))
    }

    /// Earliest creation time at which a request without a link still counts towards the caps.
    pub fn open_since(&self, now: DateTime<Utc>) -> DateTime<Utc> {
        now - TimeDelta::days(self.open_request_days.into())
    }

    /// Checks the number of bank accounts of a payer. Errors: more than the cap (409).
    pub fn admit_bank_accounts(&self, count: u64) -> Result<(), Refusal> {
        let way_out = "use an existing one";
        at_most(
            count,
            self.bank_accounts,
            "bank accounts per payer",
            "caps.bank_accounts",
            way_out,
        )
    }

    /// Checks the number of bank accounts of a payer whose verification failed. They cannot be used, but adding an
    /// account has to read all of them. Errors: more than the cap on bank accounts (409).
    pub fn admit_failed_accounts(&self, count: u64) -> Result<(), Refusal> {
        let way_out = "correct a failed account before you add another one";
        at_most(
            count,
            self.bank_accounts,
            "failed bank accounts per payer",
            "caps.bank_accounts",
            way_out,
        )
    }

    /// Checks the number of open event streams of a platform on this instance. Errors: more than the cap (429).
    pub fn admit_event_streams(&self, count: u64) -> Result<(), Refusal> {
        if count <= self.event_streams {
            return Ok(());
        }
        let cap = self.event_streams;
        let message = format!("The limit is {cap} open event streams (caps.event_streams); close a stream first");
        Err(Refusal::new(RefusalKind::TooMany, message).after(STREAMS_RETRY_AFTER_S))
    }

    /// Checks whether an owner with this number of due deliveries may request replays and tests. Errors: the cap is
    /// reached (429).
    pub fn admit_more_due(&self, due: u64) -> Result<(), Refusal> {
        if due < self.due_deliveries {
            return Ok(());
        }
        let cap = self.due_deliveries;
        let message = format!(
            "The limit of {cap} due deliveries (caps.due_deliveries) is reached; retry replays and tests after \
             some have been sent"
        );
        Err(Refusal::new(RefusalKind::TooMany, message).after(DUE_RETRY_AFTER_S))
    }
}

fn at_most(count: u64, cap: u64, what: &str, setting: &str, way_out: &str) -> Result<(), Refusal> {
    if count <= cap {
        return Ok(());
    }
    Err(Refusal::conflict(format!(
        "The limit is {cap} {what} ({setting}); {way_out}, or ask the operator for a higher limit"
    )))
}

/// The headroom of one owner on one instance: the number of requests that may be created before the open requests are
/// counted again in the database. It also tracks the requests that are being created. Times are readings of a monotonic
/// clock.
///
/// After a count of the open requests, a tenth of the remaining capacity may be used for 30 seconds without another
/// count. If the remaining capacity is less than 1,000 requests, each call counts the open requests in its own
/// transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Headroom {
    left: u64,
    until: Duration,
    /// Number of all requests ever taken from the headroom.
    taken: u64,
    /// Number of taken requests whose creation is committed or abandoned.
    settled: u64,
}

impl Headroom {
    /// Remaining capacity below which every call counts the open requests.
    const COUNTED_BELOW: u64 = 1_000;

    /// After a count, the headroom is the remaining capacity divided by this number.
    const PART: u64 = 10;

    const LASTS: Duration = Duration::from_secs(30);

    /// Takes a number of requests from the headroom. Returns `false` when the open requests have to be counted instead.
    pub fn take(&mut self, requests: u64, now: Duration) -> bool {
        let left = self.left.checked_sub(requests).filter(|_| now < self.until);
        if let Some(left) = left {
            self.left = left;
            self.taken += requests;
        }
        left.is_some()
    }

    /// Records that the creation of taken requests is committed or abandoned.
    pub fn settle(&mut self, requests: u64) {
        self.settled += requests;
    }

    /// Number of taken requests whose creation is committed or abandoned. A count of the open requests that begins now
    /// sees all of them.
    pub fn settled(&self) -> u64 {
        self.settled
    }

    /// Renews the headroom after a count of open requests. `counted` is its result; `settled` is [`Self::settled`] from
    /// before the count.
    ///
    /// Returns the largest possible number of open requests: the count may have missed requests that were taken but not
    /// yet settled.
    pub fn renew(&mut self, counted: u64, settled: u64, cap: u64, now: Duration) -> u64 {
        let open = counted.saturating_add(self.taken.saturating_sub(settled));
        let room = cap.saturating_sub(open);
        self.left = if room < Self::COUNTED_BELOW {
            0
        } else {
            room / Self::PART
        };
        self.until = now + Self::LASTS;
        open
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headroom_is_a_tenth_of_the_free_capacity_and_expires() {
        let at = Duration::from_secs;
        let given = |room: u64, second: u64, requests: u64| {
            let mut headroom = Headroom::default();
            assert_eq!(headroom.renew(5, 0, room + 5, at(100)), 5);
            headroom.take(requests, at(second)).then_some(headroom.left)
        };
        assert_eq!(given(999, 100, 1), None, "small free capacity is counted each time");
        assert_eq!(given(1_000, 100, 100), Some(0));
        assert_eq!(given(1_000, 100, 101), None);
        assert_eq!(given(10_000, 129, 200), Some(800));
        assert_eq!(given(10_000, 130, 200), None);
    }

    #[test]
    fn rows_a_count_may_have_missed_reduce_headroom() {
        let now = Duration::from_secs(100);
        let mut headroom = Headroom::default();
        headroom.renew(0, 0, 3_000, now);
        assert!(headroom.take(200, now));
        let before = headroom.settled();
        assert_eq!(headroom.renew(0, before, 3_000, now), 200);
        assert!(headroom.take(200, now));
        headroom.settle(200);
        assert_eq!(
            headroom.renew(200, before, 3_000, now),
            600,
            "the count may have started earlier"
        );
        let after = headroom.settled();
        assert_eq!(headroom.renew(200, after, 3_000, now), 400);
        headroom.settle(200);
        let settled = headroom.settled();
        assert_eq!(headroom.renew(400, settled, 3_000, now), 400);
        assert!(headroom.take(200, now) && !headroom.take(200, now));
    }

    const CAPS: Caps = Caps {
        endpoints: 2,
        unapproved_endpoints: 2,
        api_keys: 2,
        client_ids: 2,
        event_streams: 2,
        due_deliveries: 2,
        schedules: 2,
        public_schedules: 2,
        open_requests: 2,
        public_open_requests: 2,
        open_request_days: 30,
        public_reports: 2,
        reports_of_address: 2,
        bank_accounts: 2,
    };

    #[test]
    fn a_rejection_names_its_cap() {
        let beside = |of_platform, of_public_client| {
            CAPS.admit_another_schedule(LiveScheduleCounts {
                of_platform,
                of_public_client,
            })
        };
        for (admitted, refused, name) in [
            (CAPS.admit_endpoints(2), CAPS.admit_endpoints(3), "caps.endpoints"),
            (
                CAPS.admit_unapproved_endpoints(2),
                CAPS.admit_unapproved_endpoints(3),
                "caps.unapproved_endpoints",
            ),
            (CAPS.admit_api_keys(2), CAPS.admit_api_keys(3), "caps.api_keys"),
            (CAPS.admit_client_ids(2), CAPS.admit_client_ids(3), "caps.client_ids"),
            (
                CAPS.admit_event_streams(2),
                CAPS.admit_event_streams(3),
                "caps.event_streams",
            ),
            (beside(1, 0), beside(2, 0), "caps.schedules"),
            (beside(1, 1), beside(1, 2), "caps.public_schedules"),
            (
                CAPS.admit_open_requests(2),
                CAPS.admit_open_requests(3),
                "caps.open_requests",
            ),
            (
                CAPS.admit_public_open_requests(2),
                CAPS.admit_public_open_requests(3),
                "caps.public_open_requests",
            ),
            (
                CAPS.admit_bank_accounts(2),
                CAPS.admit_bank_accounts(3),
                "caps.bank_accounts",
            ),
            (CAPS.admit_more_due(1), CAPS.admit_more_due(2), "caps.due_deliveries"),
        ] {
            assert_eq!(admitted, Ok(()), "{name}");
            let message = refused.expect_err(name).message;
            assert!(message.contains(name) && message.contains('2'), "{message}");
        }
    }
}
