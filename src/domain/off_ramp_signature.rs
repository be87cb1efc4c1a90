//! Authentication of calls to the off-ramp partner and of its callbacks.
//!
//! Calls and callbacks are signed with HMAC-SHA-256 in lower-case hexadecimal. The key is the bytes of the secret as
//! written in the settings. Time and id contain no dots, so two different messages never have the same signed text.
//! Source: ADR-0022.

use super::{ids::Secret, webhook::mac};
use chrono::{DateTime, TimeDelta, Utc};
use subtle::ConstantTimeEq;

/// Maximum difference between the time of a message and the receiver's clock. Source: ADR-0022.
pub const WINDOW: TimeDelta = TimeDelta::minutes(5);

/// Maximum size of a callback. Source: ADR-0022.
pub const CALLBACK_BYTES_MAX: usize = 64 * 1024;

/// Names of the headers in calls and callbacks.
pub mod header {
    /// Name of the key with which a call is signed.
    pub const KEY: &str = "x-offramp-key";
    /// When the message was signed, in seconds since 1970.
    pub const TIME: &str = "x-offramp-time";
    /// Id of the message.
    pub const ID: &str = "x-offramp-id";
    /// The signature.
    pub const SIGNATURE: &str = "x-offramp-signature";
    /// Idempotency key, under which the receiver creates a record only once.
    pub const IDEMPOTENCY_KEY: &str = "idempotency-key";
}

/// Maximum length of a message id.
const ID_LENGTH_MAX: usize = 64;

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
    /// Signs `time.id.METHOD.target.body`.
    pub fn signature(&self, secret: &Secret) -> String {
        let [time, id, method, target] = [self.time, self.id, self.method, self.target].map(str::as_bytes);
        let parts: [&[u8]; 9] = [time, b".", id, b".", method, b".", target, b".", self.body];
        hex::encode(mac(secret.reveal(), &parts))
    }
}

/// Signed parts of a callback.
#[derive(Debug, Clone, Copy)]
pub struct CallbackText<'a> {
    /// Seconds since 1970, in digits.
    pub time: &'a str,
    /// Id of the callback.
    pub id: &'a str,
    /// The bytes of the body.
    pub body: &'a [u8],
}

impl CallbackText<'_> {
    /// Whether the message was signed with one of the secrets, at a time within [`WINDOW`] of `now`.
    pub fn is_signed(&self, secrets: &[Secret], now: DateTime<Utc>, signature: &str) -> bool {
        // Every secret is checked, so that the response time does not reveal a partial match.
        let fits = secrets.iter().map(|secret| is_same(&self.mac(secret), signature));
        let fits = fits.fold(false, |known, fits| known | fits);
        is_timely(self.time, now) && is_id(self.id) && fits
    }

    /// The HMAC of `time.id.body`.
    fn mac(&self, secret: &Secret) -> Vec<u8> {
        let [time, id] = [self.time, self.id].map(str::as_bytes);
        mac(secret.reveal(), &[time, b".", id, b".", self.body])
    }
}

fn is_same(mac: &[u8], signature: &str) -> bool {
    hex::encode(mac).as_bytes().ct_eq(signature.as_bytes()).into()
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

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(seconds, 0).expect("in range")
    }

    fn signature(text: &CallbackText<'_>, secret: &Secret) -> String {
        hex::encode(text.mac(secret))
    }

    #[test]
    fn a_callback_counts_with_either_secret_within_five_minutes() {
        let secrets = ["present", "former"].map(Secret::new);
        let text = CallbackText {
            time: "1769860800",
            id: "news_1",
            body: br#"{"type":"payer"}"#,
        };
        for secret in &secrets {
            let signature = signature(&text, secret);
            for (now, counts) in [
                (1_769_860_800, true),
                (1_769_861_100, true),
                (1_769_861_101, false),
                (1_769_860_500, true),
                (1_769_860_499, false),
            ] {
                assert_eq!(text.is_signed(&secrets, at(now), &signature), counts, "{now}");
            }
            assert!(!text.is_signed(&[], at(1_769_860_800), &signature));
            assert!(!text.is_signed(&secrets, at(1_769_860_800), &signature.to_uppercase()));
        }
        let other = signature(&text, &Secret::new("nobody's"));
        assert!(!text.is_signed(&secrets, at(1_769_860_800), &other));
    }

    #[test]
    fn callbacks_with_an_invalid_time_or_id_are_rejected() {
        let secret = [Secret::new("secret")];
        let text = |time, id| CallbackText { time, id, body: b"{}" };
        for (time, id) in [
            ("", "a"),
            ("+1769860800", "a"),
            ("1769860800.0", "a"),
            ("999999999999999999999", "a"),
            ("1769860800", ""),
            ("1769860800", "a.b"),
            ("1769860800", "ä"),
        ] {
            let text = text(time, id);
            let signature = signature(&text, &secret[0]);
            assert!(!text.is_signed(&secret, at(1_769_860_800), &signature), "{time} {id}");
        }
    }
}
