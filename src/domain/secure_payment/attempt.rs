//! Attempts: payment pages note that they ask a wallet to pay, before they ask it. A wallet may send a payment and say that
//! it failed, so an attempt warns other visitors until its page withdraws it or its time is over. It settles nothing.

use crate::domain::{address::Address, elapsed::is_within};
use chrono::{DateTime, TimeDelta, Utc};

/// Attempts that one secure payment keeps: one more takes the place of the oldest, so that a stranger with the token keeps
/// no payer from paying.
pub const ATTEMPTS_MAX: usize = 20;

/// How long an attempt warns.
const LASTS: TimeDelta = TimeDelta::minutes(30);

/// A payment that a page asked a wallet for. A wallet and a nonce are one attempt, however often they are noted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// Account that was asked.
    pub wallet: Address,
    /// Nonce that its next transaction had; `None` where the wallet did not tell it.
    pub nonce: Option<u64>,
    /// When it was noted last.
    pub noted_at: DateTime<Utc>,
}

impl Attempt {
    /// Whether both are the same wallet with the same nonce.
    pub fn is_same(&self, other: &Self) -> bool {
        (self.wallet, self.nonce) == (other.wallet, other.nonce)
    }

    fn is_live(&self, now: DateTime<Utc>) -> bool {
        is_within(self.noted_at, LASTS, now)
    }
}

/// Until when the newest of some attempts warns.
pub(super) fn attempted_until(attempts: &[Attempt], now: DateTime<Utc>) -> Option<DateTime<Utc>> {
    let live = attempts.iter().filter(|attempt| attempt.is_live(now));
    live.map(|attempt| attempt.noted_at + LASTS).max()
}

/// The attempts that warn, without one that is withdrawn.
pub fn withdraw_attempt(attempts: &[Attempt], withdrawn: &Attempt, now: DateTime<Utc>) -> Vec<Attempt> {
    let others = attempts.iter().filter(|attempt| !attempt.is_same(withdrawn));
    others.filter(|attempt| attempt.is_live(now)).cloned().collect()
}

/// The attempts that warn once another one is noted, which is the last of them.
pub fn note_attempt(attempts: &[Attempt], noted: &Attempt) -> Vec<Attempt> {
    let mut kept = withdraw_attempt(attempts, noted, noted.noted_at);
    let surplus = (kept.len() + 1).saturating_sub(ATTEMPTS_MAX);
    kept.drain(..surplus);
    kept.push(noted.clone());
    kept
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            SecurePaymentStatus,
            tests::{at, link},
        },
        *,
    };

    fn attempt(nonce: u64, second: i64) -> Attempt {
        Attempt {
            wallet: Address::parse("0x70997970C51812dc3A010C7d01b50e0d17dc79C8").unwrap(),
            nonce: Some(nonce),
            noted_at: at(second),
        }
    }

    #[test]
    fn an_attempt_is_noted_once_and_warns_for_half_an_hour() {
        let mut payment = link(SecurePaymentStatus::Pending);
        for second in [10, 20] {
            payment.attempts = note_attempt(&payment.attempts, &attempt(7, second));
        }
        assert_eq!(payment.attempts, [attempt(7, 20)]);
        assert_eq!(payment.in_flight_until(false, at(1_819)), Some(at(1_820)));
        assert_eq!(payment.in_flight_until(false, at(1_820)), None);
        assert_eq!(payment.in_flight_until(false, at(18)), None, "the clock was set back");
        assert_eq!(note_attempt(&payment.attempts, &attempt(8, 1_820)), [attempt(8, 1_820)]);
        assert_eq!(
            withdraw_attempt(&payment.attempts, &attempt(8, 30), at(30)),
            [attempt(7, 20)]
        );
        assert_eq!(withdraw_attempt(&payment.attempts, &attempt(7, 30), at(30)), []);
    }

    #[test]
    fn one_attempt_too_many_takes_the_place_of_the_oldest() {
        let mut payment = link(SecurePaymentStatus::Pending);
        for nonce in 0..=20 {
            payment.attempts = note_attempt(&payment.attempts, &attempt(nonce, 10));
        }
        assert_eq!(payment.attempts.len(), ATTEMPTS_MAX);
        assert_eq!(payment.attempts.first(), Some(&attempt(1, 10)));
        assert_eq!(payment.attempts.last(), Some(&attempt(20, 10)));
    }
}
