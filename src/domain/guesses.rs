//! How guessing at passwords is slowed down, and which devices are known, so that a guesser keeps no owner out.

use super::ids::{AccountId, Secret};
use chrono::{DateTime, TimeDelta, Utc};
use std::net::IpAddr;

/// How long a device is known after its last sign-in.
pub const DEVICE_LIFETIME: TimeDelta = TimeDelta::days(365);

/// Devices of one account that are known at most; those that signed in longest ago are forgotten.
pub const DEVICES_MAX: u64 = 20;

/// Who tries to sign in, as far as it can be told before a password is right.
#[derive(Debug, Clone, Default)]
pub struct Visitor {
    /// Whether a page of a browser makes the call. Browsers keep a marker; other clients are known by their address.
    pub is_page: bool,
    /// Address of the caller, as far as it is told apart.
    pub address: Option<IpAddr>,
    /// The marker that an earlier sign-in left.
    pub device: Option<Secret>,
}

/// A device, or the address of a client that is no browser, from which somebody has signed in to an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// Hexadecimal SHA-256 of its marker, or of the account and the address.
    pub hash: String,
    /// The account; known to one, it is a stranger to all others.
    pub account: AccountId,
    /// Last sign-in.
    pub last_used_at: DateTime<Utc>,
}

/// Guesses that were counted together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Guesses {
    /// How many without a success.
    pub count: u32,
    /// The last one.
    pub last_at: DateTime<Utc>,
}

/// How fast somebody may guess.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GuessLimit {
    /// Guesses without any wait.
    pub free: u32,
    /// Longest wait between two guesses, in seconds.
    pub wait_max_s: u32,
}

impl GuessLimit {
    /// At one account from one address, or from one device that signed in before.
    pub const ONE_VISITOR: Self = Self {
        free: 5,
        wait_max_s: 60,
    };

    /// At one account from everywhere that nobody signed in from: many addresses together are no faster than this.
    pub const STRANGERS: Self = Self {
        free: 50,
        wait_max_s: 60,
    };

    /// Time after which guesses are forgotten.
    pub const FORGOTTEN: TimeDelta = TimeDelta::minutes(15);

    /// Counts a guess, or returns the seconds to wait before one counts: each further one waits twice as long.
    pub fn admit(self, guesses: Option<Guesses>, now: DateTime<Utc>) -> Result<Guesses, u32> {
        let known = guesses.filter(|guesses| now - guesses.last_at < Self::FORGOTTEN);
        let Some(known) = known else {
            return Ok(Guesses { count: 1, last_at: now });
        };
        let extra = known.count.saturating_sub(self.free);
        let wait_s = match known.count < self.free {
            true => 0,
            false => 2_u32
                .checked_pow(extra)
                .map_or(self.wait_max_s, |wait| wait.min(self.wait_max_s)),
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
    fn guessing_gets_slower_up_to_a_limit_and_is_forgotten() {
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
