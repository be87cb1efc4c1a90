//! Webhook deliveries: schedule, signature, states and which URLs may be registered.

use super::{
    ids::{DeliveryId, EndpointId, EventId, OwnerId, Secret},
    wire_text::wire_text,
};
use base64::{Engine, engine::general_purpose::STANDARD};
use chrono::{DateTime, TimeDelta, Utc};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::{
    collections::HashMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    time::Duration,
};

/// Time limit of one attempt, including the body. Source: interface §6.1 (5).
pub const TRY_TIMEOUT_MS: u64 = 5_000;

/// Pauses after the first, second and third failed attempt. Source: interface §6.1 (5).
pub const RETRY_DELAYS_MS: [i64; 3] = [1_000, 5_000, 15_000];

/// Maximum size of a response that is read. Source: rules A.4.
pub const RESPONSE_BYTES_MAX: usize = 16 * 1024;

/// Time for which a claimed delivery belongs to its worker. It is longer than an attempt and everything around it.
///
/// Source: rules A.5.
pub const LEASE_MS: i64 = 15_000;

/// When many endpoints wait, a claim reads at most this number of deliveries for each endpoint. It reads fewer only
/// when it needs fewer.
pub const ENDPOINT_PART: u64 = 16;

/// Default time, in seconds, for which a replaced secret stays valid.
pub const OVERLAP_S_DEFAULT: u32 = 24 * 60 * 60;

/// Maximum number of valid secrets per endpoint.
pub const SECRETS_MAX: usize = 4;

/// Longest URL of an endpoint. Source: decisions D20.
pub const URL_LENGTH_MAX: usize = 2_048;

wire_text! {
    /// State of a delivery. Source: rules S.9; decisions D19.
    pub enum DeliveryState {
        /// The delivery waits for its time or for a worker.
        Queued = "queued",
        /// The receiver responded with 2xx.
        Delivered = "delivered",
        /// All attempts failed; stored and replayable.
        Failed = "failed",
        /// The endpoint was switched off or deleted.
        Cancelled = "cancelled",
    }
}

/// A replaced secret that is still valid for a while.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormerSecret {
    /// The encrypted secret.
    pub sealed: String,
    /// First moment at which the secret is no longer valid.
    pub until: DateTime<Utc>,
}

/// The former secrets of an endpoint after a rotation at `now`, oldest first. `replaced` stays valid until `until`, and
/// no older secret stays valid for longer.
///
/// Errors: too many secrets would be valid at the same time.
pub fn retire(
    former: &[FormerSecret],
    replaced: String,
    now: DateTime<Utc>,
    until: DateTime<Utc>,
) -> Result<Vec<FormerSecret>, TooManySecrets> {
    let mut kept: Vec<FormerSecret> = former.to_vec();
    kept.push(FormerSecret {
        sealed: replaced,
        until,
    });
    for secret in &mut kept {
        secret.until = secret.until.min(until);
    }
    kept.retain(|secret| secret.until > now);
    if kept.len() < SECRETS_MAX {
        Ok(kept)
    } else {
        Err(TooManySecrets)
    }
}

/// An endpoint has the maximum number of valid secrets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooManySecrets;

/// A delivery that a worker has claimed, with everything that sending needs.
#[derive(Debug, Clone)]
pub struct ClaimedDelivery {
    /// Delivery.
    pub id: DeliveryId,
    /// Event.
    pub event: EventId,
    /// Platform or orchestrator.
    pub owner: OwnerId,
    /// Endpoint.
    pub endpoint: EndpointId,
    /// URL of the endpoint.
    pub url: String,
    /// Encrypted secret of the endpoint.
    pub secret_sealed: String,
    /// Previous secrets that may still be in use, oldest first.
    pub former_secrets: Vec<FormerSecret>,
    /// Prefix of the headers that the endpoint reads; `None` if the endpoint did not choose one.
    pub header_prefix: Option<String>,
    /// Whether the endpoint may receive personal data.
    pub is_approved: bool,
    /// The bytes that are signed and sent. They are encrypted when they contain personal data.
    pub body: String,
    /// Number of failed attempts before this attempt, 0 to 3.
    pub retry_count: u32,
    /// Whether this is a test delivery.
    pub is_test: bool,
    /// Whether the delivery is sent again, after a replay or in a recovery round.
    pub is_replay: bool,
    /// Whether recent attempts at the endpoint failed.
    pub is_endpoint_failing: bool,
    /// Fencing token: only the worker that holds it may record the attempt.
    pub lease_token: String,
}

/// Options of the next claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimRequest {
    /// Deliveries that are due at this time are claimed. The worker passes a time at which its clock was found to be
    /// right. A clock that jumps before the claim starts could otherwise make everything due.
    pub now: DateTime<Utc>,
    /// Identifies the claim. Only the worker that holds it may record the claimed deliveries.
    pub lease_token: String,
    /// Maximum number of deliveries.
    pub limit: u64,
    /// Maximum number of deliveries per endpoint.
    pub share: u64,
    /// Endpoints that already have enough deliveries in flight. They are left out, so that a slow endpoint cannot hold
    /// up the others.
    pub busy: Vec<EndpointId>,
    /// Owners that are left out, because their deliveries could otherwise take every slot.
    pub served: Vec<OwnerId>,
}

impl ClaimRequest {
    /// When the claim ends. Afterwards any worker may claim the unrecorded deliveries again.
    pub fn lease_until(&self) -> DateTime<Utc> {
        self.now + TimeDelta::milliseconds(LEASE_MS)
    }

    /// Number of deliveries of all owners that a claim reads, longest waiting first, when more endpoints wait than it
    /// can list. Zero while some owners are left out, because the claim would have to read their deliveries only to
    /// skip them.
    pub fn oldest(&self) -> u64 {
        if self.served.is_empty() {
            self.limit.saturating_mul(2)
        } else {
            0
        }
    }

    /// Whether more deliveries may be due than a claim returned. True if the claim is full, or if an endpoint got as
    /// many deliveries as the claim read for it.
    pub fn may_be_more(&self, claimed: &[ClaimedDelivery]) -> bool {
        let mut left: HashMap<&EndpointId, u64> = HashMap::new();
        let is_full = |count: usize| u64::try_from(count).is_ok_and(|count| count >= self.limit);
        is_full(claimed.len())
            || claimed.iter().any(|delivery| {
                let left = left.entry(&delivery.endpoint).or_insert(self.share.min(ENDPOINT_PART));
                *left = left.saturating_sub(1);
                *left == 0
            })
    }
}

/// Result of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TryOutcome {
    /// Status of the response.
    pub status: Option<u16>,
    /// Why there is no usable response.
    pub error: Option<String>,
    /// First bytes of the response.
    pub response: Option<String>,
    /// When the attempt started.
    pub started_at: DateTime<Utc>,
    /// When the attempt ended.
    pub ended_at: DateTime<Utc>,
}

impl TryOutcome {
    /// Whether the receiver accepted the event.
    pub fn is_success(&self) -> bool {
        self.error.is_none() && self.status.is_some_and(|status| (200..300).contains(&status))
    }
}

/// What happens to a delivery after an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterTry {
    /// Done.
    Delivered,
    /// Retry, not before this time.
    RetryAt(DateTime<Utc>),
    /// No attempts left.
    Exhausted,
}

/// A finished attempt that waits to be recorded.
#[derive(Debug, Clone)]
pub struct FinishedAttempt {
    /// The delivery.
    pub delivery: ClaimedDelivery,
    /// Its result.
    pub outcome: TryOutcome,
    /// What follows.
    pub after: AfterTry,
    /// Monotonic time at the end of the attempt. It shows whether the clock has jumped since then.
    pub ended: Duration,
}

/// Decides what follows an attempt. The pause counts from the end of the failed attempt.
///
/// Source: interface §6.1 (5); rules A.5.
pub fn after_try(retry_count: u32, outcome: &TryOutcome) -> AfterTry {
    if outcome.is_success() {
        return AfterTry::Delivered;
    }
    let delay = usize::try_from(retry_count)
        .ok()
        .and_then(|count| RETRY_DELAYS_MS.get(count));
    delay.map_or(AfterTry::Exhausted, |delay| {
        AfterTry::RetryAt(outcome.ended_at + TimeDelta::milliseconds(*delay))
    })
}

/// Signs the raw body: lower-case hexadecimal HMAC-SHA-256, keyed with the bytes of the secret as it was shown.
///
/// Source: interface §6.1 (3); decisions D22.
pub fn sign(secret: &str, body: &[u8]) -> String {
    hex::encode(mac(secret, &[body]))
}

/// Signs in the format of Standard Webhooks: `v1,` and the base-64 HMAC-SHA-256 of id, time and body, under the same
/// key as [`sign`].
///
/// Source: decisions D30 (Standard Webhooks 1.0.0).
pub fn sign_standard(secret: &str, id: &str, timestamp_s: i64, body: &[u8]) -> String {
    let time = timestamp_s.to_string();
    let mac = mac(secret, &[id.as_bytes(), b".", time.as_bytes(), b".", body]);
    format!("v1,{}", STANDARD.encode(mac))
}

/// The format of a secret for verifiers of Standard Webhooks. Source: decisions D30.
pub fn standard_form(secret: &Secret) -> Secret {
    Secret::new(format!("whsec_{}", STANDARD.encode(secret.reveal())))
}

/// The header prefixes for an endpoint: only the prefix that the endpoint chose, if the settings still contain this
/// prefix; otherwise all prefixes.
///
/// Source: decisions D35.
pub fn prefixes<'a>(configured: &'a [String], chosen: Option<&str>) -> Vec<&'a str> {
    let all = || configured.iter().map(String::as_str);
    match all().find(|prefix| Some(*prefix) == chosen) {
        Some(chosen) => vec![chosen],
        None => all().collect(),
    }
}

/// Input of the signature of an attempt.
#[derive(Debug, Clone)]
pub struct SignatureInput<'a> {
    /// Prefixes of the header names of the contract, without the dash.
    pub prefixes: &'a [&'a str],
    /// Whether the headers of Standard Webhooks are sent as well.
    pub is_standard: bool,
    /// Currently valid secrets, oldest first.
    pub secrets: &'a [Secret],
    /// Id of the delivery.
    pub id: &'a str,
    /// Now.
    pub now: DateTime<Utc>,
    /// The bytes to sign.
    pub body: &'a [u8],
}

impl SignatureInput<'_> {
    /// The headers that authenticate a delivery.
    ///
    /// Receivers compare the contract's header with a single value. So during a rotation this header is made with the
    /// oldest secret, and receivers do not have to change anything before the overlap ends. The newer secrets sign a
    /// separate header, newest first. Source: interface §6.1 (3); decisions D22; decisions D30.
    pub fn headers(&self) -> Vec<(String, String)> {
        let mut signatures = self.secrets.iter().map(|secret| sign(secret.reveal(), self.body));
        let oldest = signatures.next();
        let newer: Vec<String> = signatures.rev().collect();
        let mut headers = Vec::new();
        for prefix in self.prefixes {
            if let Some(oldest) = &oldest {
                headers.push((format!("{prefix}-signature"), oldest.clone()));
            }
            if !newer.is_empty() {
                headers.push((format!("{prefix}-signature-next"), newer.join(" ")));
            }
        }
        if self.is_standard {
            let time = self.now.timestamp();
            let signatures = self.secrets.iter().rev();
            let signatures: Vec<String> = signatures
                .map(|secret| sign_standard(secret.reveal(), self.id, time, self.body))
                .collect();
            headers.push(("webhook-id".to_owned(), self.id.to_owned()));
            headers.push(("webhook-timestamp".to_owned(), time.to_string()));
            headers.push(("webhook-signature".to_owned(), signatures.join(" ")));
        }
        headers
    }
}

/// HMAC-SHA-256 over the concatenated parts, keyed with the bytes of the secret as it was shown.
pub(super) fn mac(secret: &str, parts: &[&[u8]]) -> Vec<u8> {
    #[expect(clippy::expect_used, reason = "HMAC takes keys of every length")]
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("any key length");
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().to_vec()
}

/// Whether plain-http loopback endpoints are accepted.
#[derive(Debug, Clone, Copy)]
pub struct UrlPolicy {
    /// `webhooks.allow_loopback`.
    pub allow_loopback: bool,
}

impl UrlPolicy {
    /// Checks a URL at registration; names are checked again at connect time, after resolution.
    ///
    /// Errors: the message for the caller. Source: decisions D20; rules A.4.
    pub fn check(self, text: &str) -> Result<url::Url, String> {
        if text.chars().count() > URL_LENGTH_MAX {
            return Err(format!("must have at most {URL_LENGTH_MAX} characters"));
        }
        let url = url::Url::parse(text)
            .map_err(|_| "must be an absolute https URL, for example https://example.com/hooks".to_owned())?;
        // The parser drops an empty user name.
        let authority = text
            .split("://")
            .nth(1)
            .and_then(|rest| rest.split(['/', '?', '#']).next());
        if !url.username().is_empty() || url.password().is_some() || authority.is_some_and(|text| text.contains('@')) {
            return Err("must not contain a user name or password".to_owned());
        }
        let host = url.host().ok_or_else(|| "must name a host".to_owned())?;
        // A trailing dot does not change a name, and all names below localhost are this machine.
        let name = match &host {
            url::Host::Domain(name) => name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase(),
            _ => host.to_string(),
        };
        if matches!(host, url::Host::Domain(_)) && !is_host_name(&name) {
            return Err(
                "must name a host of at most 253 characters: parts of 1 to 63 characters with dots between them"
                    .to_owned(),
            );
        }
        if url.port() == Some(0) {
            return Err("must not name port 0: no server can listen on it".to_owned());
        }
        let is_loopback_name = name == "localhost" || name.ends_with(".localhost");
        let address = match &host {
            url::Host::Ipv4(address) => Some(IpAddr::V4(*address)),
            url::Host::Ipv6(address) => Some(IpAddr::V6(*address)),
            url::Host::Domain(_) => None,
        };
        let is_loopback = is_loopback_name
            || address.is_some_and(|address| address == Ipv4Addr::LOCALHOST || address == Ipv6Addr::LOCALHOST);
        if is_loopback && self.allow_loopback && matches!(url.scheme(), "http" | "https") {
            return Ok(url);
        }
        if url.scheme() != "https" {
            return Err(
                "must use https; http is accepted only for localhost, 127.0.0.1 and [::1] outside production"
                    .to_owned(),
            );
        }
        if is_loopback || address.is_some_and(|address| !is_public(address)) {
            return Err(
                "must be a public address: private, loopback, link-local and reserved ranges are refused".to_owned(),
            );
        }
        Ok(url)
    }

    /// Whether a connection to this address may be opened.
    pub fn admits(self, address: IpAddr) -> bool {
        let loopback = address == Ipv4Addr::LOCALHOST || address == Ipv6Addr::LOCALHOST;
        is_public(address) || (self.allow_loopback && loopback)
    }
}

/// Whether a name is a valid host name: at most 253 characters, and 1 to 63 characters in each part.
pub(super) fn is_host_name(name: &str) -> bool {
    name.len() <= 253 && name.split('.').all(|label| (1..=63).contains(&label.len()))
}

/// The host of an endpoint's URL: the only part that may be shown and logged, because the rest may contain a token.
pub fn host_of(url: &str) -> String {
    let host = url::Url::parse(url)
        .ok()
        .and_then(|url| url.host_str().map(str::to_owned));
    host.unwrap_or_default()
}

/// Whether an address is publicly reachable. If an IPv6 address contains an IPv4 address, the IPv4 address decides.
///
/// Source: rules A.4.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => match wrapped_v4(address) {
            Some(inner) => is_public_v4(inner),
            None => is_public_v6(address),
        },
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let reserved = matches!(
        (a, b, c),
        (0 | 10 | 127 | 224..=255, _, _)
            | (100, 64..=127, _)
            | (169, 254, _)
            | (172, 16..=31, _)
            | (192, 0, 0 | 2)
            | (192, 88, 99)
            | (192, 168, _)
            | (198, 18 | 19, _)
            | (198, 51, 100)
            | (203, 0, 113)
    );
    !reserved
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let [a, b, ..] = address.segments();
    let reserved = address.is_unspecified()
        || address.is_loopback()
        || address.is_multicast()
        || a & 0xfe00 == 0xfc00
        || a & 0xffc0 == 0xfe80
        || a & 0xffc0 == 0xfec0
        // All of 2001::/23 is reserved for protocols: benchmarks, keys in place of addresses, tunnels.
        || (a == 0x2001 && (b == 0xdb8 || b < 0x200))
        || (a == 0x3fff && b < 0x1000)
        // Discard prefix, and addresses that identify no host.
        || (a == 0x100 && matches!(address.segments()[1..4], [0, 0, 0 | 1]))
        || (a == 0x64 && b == 0xff9b)
        || a == 0x5f00
        || a == 0;
    !reserved
}

/// IPv4 address inside a mapped, NAT64 or 6to4 address.
fn wrapped_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let octets = address.octets();
    let tail = Ipv4Addr::new(octets[12], octets[13], octets[14], octets[15]);
    match address.segments() {
        [0, 0, 0, 0, 0, 0xffff, ..] | [0x64, 0xff9b, 0, 0, 0, 0, ..] => Some(tail),
        [0x2002, ..] => Some(Ipv4Addr::new(octets[2], octets[3], octets[4], octets[5])),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signature_key_is_the_text_of_the_secret() {
        let secret = "f3c189a4b5e6d7f8a9b0c1d2e3f4a5b6c7d8e9f0a1b2c3d4e5f6a7b8c9d0e1f2";
        assert_eq!(
            sign(secret, br#"{"event":"payment.confirmed"}"#),
            "ef63a8d5eb6a8f60c11aae934731a9c13a5663c5a7f513ee82cc2832f692b440"
        );
    }

    #[test]
    fn the_standard_signature_uses_the_same_key_bytes() {
        // Created with the published Python library.
        let secret = "f3c189a4b5e6d7f8a9b0c1d2e3f4a5b6c7d8e9f0a1b2c3d4e5f6a7b8c9d0e1f2";
        assert_eq!(
            standard_form(&Secret::new(secret)).reveal(),
            "whsec_ZjNjMTg5YTRiNWU2ZDdmOGE5YjBjMWQyZTNmNGE1YjZjN2Q4ZTlmMGExYjJjM2Q0ZTVmNmE3YjhjOWQwZTFmMg=="
        );
        assert_eq!(
            sign_standard(
                secret,
                "01JZX4T9QK3M7N8P2R5S6V0WYB",
                1_769_860_800,
                br#"{"event":"payment.confirmed"}"#
            ),
            "v1,ziL2BDFUfiCwsnRPsKiSK5mq9/zLRsr0zFQErdjeL4g="
        );
    }

    #[test]
    fn the_oldest_secret_signs_the_contract_header() {
        let secrets = ["old", "new", "newest"].map(Secret::new);
        let signing = |secrets: &[Secret]| {
            let headers = SignatureInput {
                prefixes: &["x-service", "x-other"],
                is_standard: true,
                secrets,
                id: "01JZX4T9QK3M7N8P2R5S6V0WYB",
                now: DateTime::UNIX_EPOCH,
                body: b"{}",
            };
            headers
                .headers()
                .into_iter()
                .collect::<std::collections::BTreeMap<_, _>>()
        };
        let one = signing(&secrets[..1]);
        assert_eq!(one["x-service-signature"], sign("old", b"{}"));
        assert!(!one.contains_key("x-service-signature-next"));
        assert_eq!(one["webhook-signature"].matches("v1,").count(), 1);
        let three = signing(&secrets);
        assert_eq!(three["x-service-signature"], sign("old", b"{}"));
        for name in ["signature", "signature-next"] {
            assert_eq!(three[&format!("x-other-{name}")], three[&format!("x-service-{name}")]);
        }
        assert_eq!(
            three["x-service-signature-next"],
            format!("{} {}", sign("newest", b"{}"), sign("new", b"{}"))
        );
        assert_eq!(three["webhook-signature"].split(' ').count(), 3);
    }

    #[test]
    fn an_endpoint_gets_its_chosen_header_prefix_or_all() {
        let configured = ["x-service", "x-other"].map(str::to_owned);
        assert_eq!(prefixes(&configured, None), ["x-service", "x-other"]);
        assert_eq!(prefixes(&configured, Some("x-other")), ["x-other"]);
        assert_eq!(prefixes(&configured, Some("x-gone")), ["x-service", "x-other"]);
    }

    #[test]
    fn a_rotation_keeps_valid_secrets_only_for_the_overlap() {
        let at = |seconds| DateTime::UNIX_EPOCH + TimeDelta::seconds(seconds);
        let former = |sealed: &str, until| FormerSecret {
            sealed: sealed.to_owned(),
            until: at(until),
        };
        let first = retire(&[], "a".to_owned(), at(0), at(100)).unwrap();
        assert_eq!(first, [former("a", 100)]);
        let second = retire(&first, "b".to_owned(), at(10), at(50)).unwrap();
        assert_eq!(second, [former("a", 50), former("b", 50)]);
        assert_eq!(retire(&second, "c".to_owned(), at(20), at(20)).unwrap(), []);
        assert_eq!(
            retire(&second, "c".to_owned(), at(60), at(90)).unwrap(),
            [former("c", 90)]
        );
        let third = retire(&second, "c".to_owned(), at(20), at(90)).unwrap();
        assert_eq!(retire(&third, "d".to_owned(), at(20), at(90)), Err(TooManySecrets));
    }

    #[test]
    fn a_round_has_four_attempts_with_fixed_pauses() {
        let now = DateTime::UNIX_EPOCH;
        let failed = TryOutcome {
            status: Some(500),
            error: None,
            response: None,
            started_at: now,
            ended_at: now,
        };
        let pauses: Vec<_> = (0..5).map(|count| after_try(count, &failed)).collect();
        let at = |seconds| AfterTry::RetryAt(now + TimeDelta::seconds(seconds));
        assert_eq!(pauses, [at(1), at(5), at(15), AfterTry::Exhausted, AfterTry::Exhausted]);
        let redirect = TryOutcome {
            status: Some(302),
            ..failed.clone()
        };
        assert_eq!(after_try(0, &redirect), at(1));
        assert_eq!(
            after_try(
                3,
                &TryOutcome {
                    status: Some(204),
                    ..failed
                }
            ),
            AfterTry::Delivered
        );
    }

    #[test]
    fn endpoint_urls_must_be_public_https_addresses() {
        let strict = UrlPolicy { allow_loopback: false };
        for text in [
            "http://example.com",
            "ftp://example.com",
            "https://u:p@example.com",
            "https://127.0.0.1",
            "https://[::1]/",
            "https://[::ffff:10.0.0.1]/",
            "https://169.254.169.254/latest",
            "https://100.64.0.1",
            "https://2130706433/",
            "https://0x7f.1/",
            "https://[64:ff9b::7f00:1]/",
            "https://[2002:7f00:1::]/",
            "https://10.1.2.3",
            "https://localhost",
            "https://LOCALHOST./",
            "https://shop.localhost/",
            "https://.../",
            "https://192.168.0.1",
            "https://[fe80::1]",
            "https://[fd00::1]",
            "https://0.0.0.0",
            "https://224.0.0.1",
            "https://[2001:2::1]/",
            "https://[2001:10::1]/",
            "https://[2001:2f:ffff::1]/",
            "https://a..example/",
            "https://.example/",
            "https://a.example../",
            "https://example.com:0/",
            "nonsense",
            "",
        ] {
            assert!(strict.check(text).is_err(), "{text}");
        }
        assert!(strict.check(&format!("https://{}.example/", "a".repeat(64))).is_err());
        for text in [
            "https://example.com/hooks?x=1",
            "https://example.com./",
            "https://[2001:4860::8888]/",
            "https://ex_ample.example:8443/",
            "https://bücher.example/hök",
        ] {
            assert!(strict.check(text).is_ok(), "{text}");
        }
        assert!(strict.check(&format!("https://{}.example/", "a".repeat(63))).is_ok());
        let loose = UrlPolicy { allow_loopback: true };
        for text in ["http://localhost:3000/x", "http://127.0.0.1:1/", "http://[::1]:1/"] {
            assert!(loose.check(text).is_ok(), "{text}");
        }
        assert!(loose.check("http://127.0.0.2/").is_err());
        assert!(loose.check("http://10.0.0.1/").is_err());
    }
}
