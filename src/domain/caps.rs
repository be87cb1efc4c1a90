//! How much of what all share one platform or orchestrator may have.

use super::refusal::{Refusal, RefusalKind};
use chrono::{DateTime, TimeDelta, Utc};
use std::time::Duration;

/// Seconds after which deliveries that waited for their turn may have been sent.
const DUE_RETRY_AFTER_S: u32 = 10;

/// Seconds after which requests that await payment may have been paid, or their links expired.
const OPEN_RETRY_AFTER_S: u32 = 60;

/// The caps of every owner, as the operator set them. Events of payments are told whatever is capped.
#[derive(Debug, Clone, Copy)]
pub struct Caps {
    /// Webhook endpoints, inactive ones and those of client IDs included; not those that wait for approval.
    pub endpoints: u64,
    /// Webhook endpoints of a public client ID that wait for approval.
    pub unapproved_endpoints: u64,
    /// API keys that are good.
    pub api_keys: u64,
    /// Client IDs that are not revoked.
    pub client_ids: u64,
    /// Event streams that are open on one instance.
    pub event_streams: u64,
    /// Due deliveries beyond which replays and tests have to wait.
    pub due_deliveries: u64,
    /// Live recurring payments of a platform.
    pub schedules: u64,
    /// Live recurring payments that a public client ID made.
    pub public_schedules: u64,
    /// Requests of a platform that await payment, items of links included; not those that its public client IDs made.
    pub open_requests: u64,
    /// Requests that a public client ID made and that await payment, items of links included.
    pub public_open_requests: u64,
    /// Days after its creation for which a request counts that awaits payment and that no link pays.
    pub open_request_days: u32,
    /// Reports in an hour about the links that a public client ID made.
    pub public_reports: u32,
    /// Reports in an hour from one address.
    pub reports_of_address: u32,
    /// Bank accounts of a payer.
    pub bank_accounts: u64,
}

/// Recurring payments that are signed and have not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LiveSchedules {
    /// Of the platform.
    pub of_platform: u64,
    /// Of them, those that the public client ID made that has another one begin; 0 for any other maker.
    pub of_public_client: u64,
}

impl Caps {
    /// Whether an owner may have so many endpoints. Errors: more than the cap (409).
    pub fn admit_endpoints(&self, count: u64) -> Result<(), Refusal> {
        let way_out = "delete one before you register another";
        at_most(count, self.endpoints, "webhook endpoints", "caps.endpoints", way_out)
    }

    /// Whether a public client ID may have so many endpoints that nobody approved. Errors: more than the cap (409).
    pub fn admit_unapproved_endpoints(&self, count: u64) -> Result<(), Refusal> {
        let (what, setting) = (
            "webhook endpoints of a public client ID that wait for approval",
            "caps.unapproved_endpoints",
        );
        let way_out = "delete one, or let an API key or a session approve one";
        at_most(count, self.unapproved_endpoints, what, setting, way_out)
    }

    /// Whether a platform may have so many good keys. Errors: more than the cap (409).
    pub fn admit_api_keys(&self, count: u64) -> Result<(), Refusal> {
        let way_out = "revoke one first; a rotated key counts until its overlap ends";
        at_most(count, self.api_keys, "API keys", "caps.api_keys", way_out)
    }

    /// Whether a platform may have so many client IDs. Errors: more than the cap (409).
    pub fn admit_client_ids(&self, count: u64) -> Result<(), Refusal> {
        let way_out = "revoke one before you create another";
        at_most(count, self.client_ids, "client IDs", "caps.client_ids", way_out)
    }

    /// Whether one more recurring payment may begin beside those that are live. Errors: a cap is reached (409).
    pub fn admit_another_schedule(&self, live: LiveSchedules) -> Result<(), Refusal> {
        let way_out = "cancel one, or wait until one is completed";
        let (what, setting) = ("live recurring payments of a platform", "caps.schedules");
        at_most(live.of_platform + 1, self.schedules, what, setting, way_out)?;
        let (what, setting) = ("live recurring payments of a public client ID", "caps.public_schedules");
        at_most(live.of_public_client + 1, self.public_schedules, what, setting, way_out)
    }

    /// Whether a platform may have so many requests that await payment, those of its public client IDs not counted. Errors:
    /// more than the cap (429).
    pub fn admit_open_requests(&self, count: u64) -> Result<(), Refusal> {
        let what = "open requests and link items of a platform beside those of its public client IDs";
        self.open_at_most(count, self.open_requests, what, "caps.open_requests")
    }

    /// Whether a public client ID may have so many requests that await payment. Errors: more than the cap (429).
    pub fn admit_public_open_requests(&self, count: u64) -> Result<(), Refusal> {
        let what = "open requests and link items of a public client ID";
        self.open_at_most(count, self.public_open_requests, what, "caps.public_open_requests")
    }

    fn open_at_most(&self, count: u64, cap: u64, what: &str, setting: &str) -> Result<(), Refusal> {
        let days = self.open_request_days;
        let way_out = format!(
            "cancel requests and withdraw links that will not be paid, or wait until some are paid or expire (a request that \
             no link pays counts for {days} days, caps.open_request_days)"
        );
        at_most(count, cap, what, setting, &way_out)
            .map_err(|refusal| Refusal::new(RefusalKind::TooMany, refusal.message).after(OPEN_RETRY_AFTER_S))
    }

    /// When the oldest request was made that counts now without a link.
    pub fn open_since(&self, now: DateTime<Utc>) -> DateTime<Utc> {
        now - TimeDelta::days(self.open_request_days.into())
    }

    /// Whether a payer may have so many bank accounts. Errors: more than the cap (409).
    pub fn admit_bank_accounts(&self, count: u64) -> Result<(), Refusal> {
        let way_out = "use one that the payer has";
        at_most(
            count,
            self.bank_accounts,
            "bank accounts of a payer",
            "caps.bank_accounts",
            way_out,
        )
    }

    /// Whether a payer may have so many bank accounts that failed: they are of no use, and each is read when another one is
    /// added. Errors: more than there may be good ones (409).
    pub fn admit_failed_accounts(&self, count: u64) -> Result<(), Refusal> {
        let way_out = "correct what the bank refuses before another one is added";
        at_most(
            count,
            self.bank_accounts,
            "bank accounts of a payer that failed",
            "caps.bank_accounts",
            way_out,
        )
    }

    /// Whether a platform may have so many streams open. Errors: more than the cap (429).
    pub fn admit_event_streams(&self, count: u64) -> Result<(), Refusal> {
        if count <= self.event_streams {
            return Ok(());
        }
        let cap = self.event_streams;
        let message = format!("As many event streams are open as caps.event_streams allows, {cap}; close one first");
        Err(Refusal::new(RefusalKind::TooMany, message))
    }

    /// Whether an owner with so many due deliveries may ask for more. Errors: the cap is reached (429).
    pub fn admit_more_due(&self, due: u64) -> Result<(), Refusal> {
        if due < self.due_deliveries {
            return Ok(());
        }
        let cap = self.due_deliveries;
        let message = format!(
            "As many deliveries wait for their turn as caps.due_deliveries allows, {cap}; replays and tests are taken again \
             once some were sent"
        );
        Err(Refusal::new(RefusalKind::TooMany, message).after(DUE_RETRY_AFTER_S))
    }
}

fn at_most(count: u64, cap: u64, what: &str, setting: &str, way_out: &str) -> Result<(), Refusal> {
    if count <= cap {
        return Ok(());
    }
    Err(Refusal::conflict(format!(
        "There may be {cap} {what} at most ({setting}); {way_out}, or ask the operator for more"
    )))
}

/// Requests of one owner that an instance may make before those that await payment are counted again, and those that it
/// is making. Times are readings of a clock that never runs backwards.
///
/// A count gives a tenth of the room that it found, for half a minute, and nothing where there is little room: there each
/// call counts for itself, in its own transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Headroom {
    left: u64,
    until: Duration,
    /// All that were ever taken off it.
    taken: u64,
    /// Of these, those that are committed, or will not be.
    settled: u64,
}

impl Headroom {
    /// Room below which every call counts.
    const COUNTED_BELOW: u64 = 1_000;

    /// The part of the room that one count gives.
    const PART: u64 = 10;

    const LASTS: Duration = Duration::from_secs(30);

    /// Takes so many requests off it. `false` when these have to be counted.
    pub fn take(&mut self, requests: u64, now: Duration) -> bool {
        let left = self.left.checked_sub(requests).filter(|_| now < self.until);
        if let Some(left) = left {
            self.left = left;
            self.taken += requests;
        }
        left.is_some()
    }

    /// Notes that requests which were taken off it are committed, or will not be.
    pub fn settle(&mut self, requests: u64) {
        self.settled += requests;
    }

    /// How many are settled: a count that begins now sees all of these.
    pub fn settled(&self) -> u64 {
        self.settled
    }

    /// Begins anew with the room that a count left, which began when so many were `settled` and found so many `counted`.
    /// Returns how many await payment at most: it may have missed those that were taken and not settled before it.
    pub fn renew(&mut self, (counted, settled): (u64, u64), cap: u64, now: Duration) -> u64 {
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
    fn headroom_is_a_tenth_of_the_room_and_ends() {
        let at = Duration::from_secs;
        let given = |room: u64, second: u64, requests: u64| {
            let mut headroom = Headroom::default();
            assert_eq!(headroom.renew((5, 0), room + 5, at(100)), 5);
            headroom.take(requests, at(second)).then_some(headroom.left)
        };
        assert_eq!(given(999, 100, 1), None, "little room is counted each time");
        assert_eq!(given(1_000, 100, 100), Some(0));
        assert_eq!(given(1_000, 100, 101), None);
        assert_eq!(given(10_000, 129, 200), Some(800));
        assert_eq!(given(10_000, 130, 200), None);
    }

    #[test]
    fn what_a_count_may_have_missed_gives_no_headroom() {
        let now = Duration::from_secs(100);
        let mut headroom = Headroom::default();
        headroom.renew((0, 0), 3_000, now);
        assert!(headroom.take(200, now));
        let before = headroom.settled();
        assert_eq!(headroom.renew((0, before), 3_000, now), 200);
        assert!(headroom.take(200, now));
        headroom.settle(200);
        assert_eq!(
            headroom.renew((200, before), 3_000, now),
            600,
            "the count may have begun before"
        );
        let after = headroom.settled();
        assert_eq!(headroom.renew((200, after), 3_000, now), 400);
        headroom.settle(200);
        let settled = headroom.settled();
        assert_eq!(headroom.renew((400, settled), 3_000, now), 400);
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
    fn a_refusal_names_its_cap() {
        let beside = |of_platform, of_public_client| {
            CAPS.admit_another_schedule(LiveSchedules {
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
