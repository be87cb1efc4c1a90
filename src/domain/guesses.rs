//! Slows down password guessing without locking out the owner of an account: known devices are counted separately.

use super::ids::{AccountId, Secret};
use chrono::{DateTime, TimeDelta, Utc};
use std::net::IpAddr;

/// How long a device is recognised after its last sign-in.
pub const DEVICE_LIFETIME: TimeDelta = TimeDelta::days(365);

/// Maximum number of known devices of one account; the one with the oldest sign-in is dropped first.
pub const DEVICES_MAX: u64 = 20;

/// A caller that attempts to sign in, as far as known before the password is verified.
#[derive(Debug, Clone, Default)]
pub struct Visitor {
    /// Whether a browser page makes the call. Browsers store a marker; other clients are recognised by their address.
    pub is_page: bool,
    /// Client address of the caller.
    pub address: Option<IpAddr>,
    /// The marker that the browser stored at an earlier sign-in.
    pub device: Option<Secret>,
}

/// A known device of an account: a browser from which its owner signed in, or the address of another client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// Hexadecimal SHA-256 of the marker of a browser, or of the account and the address.
    pub hash: String,
    /// The account. The device is known only for this account.
    pub account: AccountId,
    /// Last sign-in.
    pub last_used_at: DateTime<Utc>,
}

/// Guesses counted together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Guesses {
    /// Number of guesses without a success.
    pub count: u32,
    /// Time of the last guess.
    pub last_at: DateTime<Utc>,
}

/// Limits for guessing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GuessLimit {
    /// Number of guesses before the first wait.
    pub free: u32,
    /// Maximum wait between two guesses, in seconds.
    pub wait_max_s: u32,
}

impl GuessLimit {
    /// Limits for one account from one address, or from one known device.
    pub const ONE_VISITOR: Self = Self {
        free: 5,
        wait_max_s: 60,
    };

    /// Limits for one account from all unknown addresses together. A guesser with many addresses is therefore not
    /// faster.
    pub const STRANGERS: Self = Self {
        free: 50,
        wait_max_s: 60,
    };

    /// Time after which guesses are forgotten.
    pub const FORGOTTEN: TimeDelta = TimeDelta::minutes(15);

    /// Counts a guess, or returns the seconds to wait before the next guess. Each further wait is twice as long.
    pub fn admit(self, guesses: Option<Guesses>, now: DateTime<Utc>) -> Result<Guesses, u32> {
        let known = guesses.filter(|guesses| now - guesses.last_at < Self::FORGOTTEN);
        let Some(known) = known else {
            return Ok(Guesses { count: 1, last_at: now });
        };
        let extra = known.count.saturating_sub(self.free);
        let wait_s = if known.count < self.free {
            0
        } else {
            2_u32
                .checked_pow(extra)
                .map_or(self.wait_max_s, |wait| wait.min(self.wait_max_s))
        };
        let left = known.last_at + TimeDelta::seconds(i64::from(wait_s)) - now;
        if left > TimeDelta::zero() {
            let whole = u32::try_from((left.num_milliseconds() + 999) / 1_000).unwrap_or(self.wait_max_s);
            return Err(whole.max(1));
        }
        Ok(Guesses {
            count: known.count.saturating_add(1),
            last_at: now,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(1_800_000_000 + seconds, 0).unwrap()
    }

    #[test]
    fn guess_delays_grow_up_to_a_limit_and_expire() {
        let limit = GuessLimit { free: 2, wait_max_s: 8 };
        let mut guesses = None;
        for _ in 0..2 {
            guesses = Some(limit.admit(guesses, at(0)).unwrap());
        }
        assert_eq!(limit.admit(guesses, at(0)), Err(1));
        let mut now = 0;
        for wait in [1, 2, 4, 8, 8] {
            assert_eq!(limit.admit(guesses, at(now)), Err(wait));
            now += i64::from(wait);
            guesses = Some(limit.admit(guesses, at(now)).unwrap());
        }
        assert_eq!(limit.admit(guesses, at(now + 900)).unwrap().count, 1);
    }
}
