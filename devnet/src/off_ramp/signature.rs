//! Authentication of calls to the partner and of its callbacks: HMAC-SHA-256 in lower-case hexadecimal.
//! docs/partners/offramp.md describes the signed text, whose parts are joined by dots.

use chrono::{DateTime, TimeDelta, Utc};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// Maximum difference between the time of a message and the receiver's clock.
const WINDOW: TimeDelta = TimeDelta::minutes(5);

/// Maximum length of a message id.
const ID_LENGTH_MAX: usize = 64;

/// Names of the headers in calls and callbacks.
pub(super) mod header {
    /// The name of the key with which the call is signed.
    pub(crate) const KEY: &str = "x-offramp-key";
    /// The time at which the message was signed, in seconds since 1970.
    pub(crate) const TIME: &str = "x-offramp-time";
    /// Id of the message.
    pub(crate) const ID: &str = "x-offramp-id";
    /// The signature.
    pub(crate) const SIGNATURE: &str = "x-offramp-signature";
    /// The idempotency key under which a record is created once.
    pub(crate) const IDEMPOTENCY_KEY: &str = "idempotency-key";
}

/// Signed parts of a call.
#[derive(Debug, Clone, Copy)]
pub struct CallText<'a> {
    /// Seconds since 1970, in digits.
    pub time: &'a str,
    /// Id of the call.
    pub id: &'a str,
    /// Method in upper case.
    pub method: &'a str,
    /// Path and query, as in the request line.
    pub target: &'a str,
    /// The bytes of the body.
    pub body: &'a [u8],
}

impl CallText<'_> {
    /// Whether the signature was made with this secret, and the time of the call differs from `now` by at most
    /// [`WINDOW`].
    pub(super) fn is_signed(&self, secret: &str, now: DateTime<Utc>, signature: &str) -> bool {
        is_timely(self.time, now) && is_id(self.id) && self.signature(secret) == signature
    }

    pub(super) fn signature(&self, secret: &str) -> String {
        let [time, id, method, target] = [self.time, self.id, self.method, self.target].map(str::as_bytes);
        sign(secret, &[time, id, method, target, self.body])
    }
}

/// The signature of a callback.
pub fn callback_signature(secret: &str, time: &str, id: &str, body: &str) -> String {
    sign(secret, &[time, id, body].map(str::as_bytes))
}

fn sign(secret: &str, parts: &[&[u8]]) -> String {
    #[expect(clippy::expect_used, reason = "HMAC accepts a key of any length")]
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("any key length");
    mac.update(&parts.join(&b'.'));
    hex::encode(mac.finalize().into_bytes())
}

fn is_timely(time: &str, now: DateTime<Utc>) -> bool {
    let is_number = (1..=11).contains(&time.len()) && time.bytes().all(|byte| byte.is_ascii_digit());
    let at = time.parse().ok().filter(|_| is_number);
    let at = at.and_then(|seconds| DateTime::from_timestamp(seconds, 0));
    at.is_some_and(|at| (now - at).abs() <= WINDOW)
}

fn is_id(id: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=ID_LENGTH_MAX).contains(&id.len()) && id.bytes().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_part_of_a_message_can_become_another_part() {
        let secret = "secret";
        let call = CallText {
            time: "1769860800",
            id: "a",
            method: "GET",
            target: "/v1/payers/p",
            body: b"",
        };
        let signature = call.signature(secret);
        let now = DateTime::from_timestamp(1_769_860_800, 0).unwrap();
        assert!(call.is_signed(secret, now, &signature));
        for changed in [
            CallText { id: "b", ..call },
            CallText {
                id: "a.GET",
                method: "",
                ..call
            },
            CallText {
                method: "DELETE",
                ..call
            },
            CallText {
                target: "/v1/payers/q",
                ..call
            },
            CallText { body: b" ", ..call },
            CallText {
                time: "1769860801",
                ..call
            },
        ] {
            assert!(!changed.is_signed(secret, now, &signature), "{changed:?}");
        }
    }
}
