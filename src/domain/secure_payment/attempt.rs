//! Attempts to pay a secure payment. A payment page records an attempt before it requests a payment from a wallet. A
//! wallet can send a payment and still report a failure. So other visitors of the page see a warning until the page
//! withdraws the attempt, or until the attempt expires. An attempt settles nothing.

use crate::domain::elapsed::is_within;
use chrono::{DateTime, TimeDelta, Utc};
use std::fmt;

/// Maximum number of attempts stored per secure payment. A further attempt replaces the oldest one, so that a stranger
/// with the token cannot use up the maximum and keep payers from paying.
pub const ATTEMPTS_MAX: usize = 20;

/// How long an attempt warns.
const LASTS: TimeDelta = TimeDelta::minutes(30);

/// Identifies an attempt. The page draws it at random and sends it only to the service, so a stranger cannot withdraw
/// the attempt.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct AttemptId(u128);

impl AttemptId {
    /// Reads 32 hexadecimal digits. Errors: the text is something else.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let digits = u128::from_str_radix(text, 16).ok();
        let digits = digits.filter(|_| text.len() == 32 && !text.starts_with('+'));
        digits.map(Self).ok_or("must be 32 hexadecimal digits")
    }

    /// Its text form.
    pub fn text(self) -> String {
        format!("{:032x}", self.0)
    }
}

/// The id is not printed, because anyone who has it can withdraw the attempt.
impl fmt::Debug for AttemptId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("AttemptId(…)")
    }
}

/// A payment that a page requested from a wallet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// Its id.
    pub id: AttemptId,
    /// When it was last recorded.
    pub noted_at: DateTime<Utc>,
}

impl Attempt {
    fn is_live(&self, now: DateTime<Utc>) -> bool {
        is_within(self.noted_at, LASTS, now)
    }
}

/// Attempts that payment pages recorded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WalletAttempts {
    /// The newest attempts, oldest first.
    pub kept: Vec<Attempt>,
    /// Time until which other visitors are warned of attempts that newer ones replaced. A withdrawal does not shorten
    /// this time.
    pub warned_until: Option<DateTime<Utc>>,
}

impl WalletAttempts {
    /// Time until which a page warns of attempts of other pages; `own` are the attempts of the page itself. `None` when
    /// there is nothing to warn of.
    pub fn warn_until(&self, own: &[AttemptId], now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let live = self.kept.iter().filter(|attempt| attempt.is_live(now));
        let others = live.filter(|attempt| !own.contains(&attempt.id));
        let others = others.map(|attempt| attempt.noted_at + LASTS).max();
        others.max(self.live_warning(now))
    }

    /// The attempts that have not expired, without the withdrawn attempt.
    #[must_use]
    pub fn withdraw(&self, withdrawn: AttemptId, now: DateTime<Utc>) -> Self {
        let others = self.kept.iter().filter(|attempt| attempt.id != withdrawn);
        Self {
            kept: others.filter(|attempt| attempt.is_live(now)).cloned().collect(),
            warned_until: self.live_warning(now),
        }
    }

    /// The attempts that have not expired, followed by the new attempt.
    #[must_use]
    pub fn note(&self, noted: AttemptId, now: DateTime<Utc>) -> Self {
        let Self { mut kept, warned_until } = self.withdraw(noted, now);
        let surplus = (kept.len() + 1).saturating_sub(ATTEMPTS_MAX);
        let evicted = kept.drain(..surplus).map(|attempt| attempt.noted_at + LASTS).max();
        kept.push(Attempt {
            id: noted,
            noted_at: now,
        });
        Self {
            kept,
            warned_until: warned_until.max(evicted),
        }
    }

    fn live_warning(&self, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        self.warned_until.filter(|until| is_within(*until - LASTS, LASTS, now))
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            PaymentSigns, SecurePaymentStatus,
            tests::{at, link},
        },
        *,
    };

    fn id(number: u128) -> AttemptId {
        AttemptId(number)
    }

    fn attempt(number: u128, second: i64) -> Attempt {
        Attempt {
            id: id(number),
            noted_at: at(second),
        }
    }

    #[test]
    fn an_attempt_is_stored_once_and_warns_for_half_an_hour() {
        let mut payment = link(SecurePaymentStatus::Pending);
        let none = PaymentSigns::default();
        for second in [10, 20] {
            payment.attempts = payment.attempts.note(id(7), at(second));
        }
        assert_eq!(payment.attempts.kept, [attempt(7, 20)]);
        assert_eq!(payment.in_flight_until(none, at(1_819)), Some(at(1_820)));
        assert_eq!(payment.in_flight_until(none, at(1_820)), None);
        assert_eq!(
            payment.in_flight_until(none, at(18)),
            None,
            "an attempt in the future must not count, because the clock was set back"
        );
        assert_eq!(
            payment.attempts.warn_until(&[id(7)], at(30)),
            None,
            "the page that made the attempt"
        );
        assert_eq!(payment.attempts.warn_until(&[id(8)], at(30)), Some(at(1_820)));
        assert_eq!(payment.attempts.note(id(8), at(1_820)).kept, [attempt(8, 1_820)]);
        assert_eq!(payment.attempts.withdraw(id(8), at(30)).kept, [attempt(7, 20)]);
        assert_eq!(payment.attempts.withdraw(id(7), at(30)).kept, []);
    }

    #[test]
    fn an_evicted_attempt_warns_until_it_expires() {
        let mut attempts = WalletAttempts::default();
        for number in 0..=20 {
            attempts = attempts.note(id(number), at(10));
        }
        assert_eq!(attempts.kept.len(), ATTEMPTS_MAX);
        assert_eq!(attempts.kept.first(), Some(&attempt(1, 10)));
        assert_eq!(attempts.kept.last(), Some(&attempt(20, 10)));
        for number in 0..=20 {
            attempts = attempts.withdraw(id(number), at(20));
        }
        assert_eq!(attempts.kept, []);
        assert_eq!(attempts.warn_until(&[id(0)], at(1_809)), Some(at(1_810)));
        assert_eq!(attempts.warn_until(&[], at(1_810)), None);
        assert_eq!(attempts.withdraw(id(0), at(1_810)), WalletAttempts::default());
    }

    #[test]
    fn an_id_has_thirty_two_hex_digits_and_is_not_printed() {
        let text = "00112233445566778899aabbccddeeff";
        let id = AttemptId::parse(text).unwrap();
        assert_eq!(id.text(), text);
        assert_eq!(format!("{id:?}"), "AttemptId(…)");
        for wrong in [
            "",
            "7",
            "+0112233445566778899aabbccddeeff",
            "0x112233445566778899aabbccddeefg",
        ] {
            assert!(AttemptId::parse(wrong).is_err(), "{wrong}");
        }
    }
}
