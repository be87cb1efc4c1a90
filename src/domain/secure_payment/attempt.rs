//! Attempts: payment pages note that they ask a wallet to pay, before they ask it. A wallet may send a payment and say that
//! it failed, so an attempt warns other visitors until its page withdraws it or its time is over. It settles nothing.

use crate::domain::elapsed::is_within;
use chrono::{DateTime, TimeDelta, Utc};
use std::fmt;

/// Attempts that one secure payment keeps: one more takes the place of the oldest, so that a stranger with the token keeps
/// no payer from paying.
pub const ATTEMPTS_MAX: usize = 20;

/// How long an attempt warns.
const LASTS: TimeDelta = TimeDelta::minutes(30);

/// What tells an attempt from all others. Its page draws it at random and tells the service alone, so that no stranger
/// withdraws it.
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

/// Who has an id can withdraw the attempt, so it does not print.
impl fmt::Debug for AttemptId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("AttemptId(…)")
    }
}

/// A payment that a page asked a wallet for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// What tells it from all others.
    pub id: AttemptId,
    /// When it was noted last.
    pub noted_at: DateTime<Utc>,
}

impl Attempt {
    fn is_live(&self, now: DateTime<Utc>) -> bool {
        is_within(self.noted_at, LASTS, now)
    }
}

/// What payment pages asked wallets to send.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Attempts {
    /// The newest ones, the last of them at the end.
    pub kept: Vec<Attempt>,
    /// Until when the attempts warn that had to make room for others. No withdrawal lowers it.
    pub warned_until: Option<DateTime<Utc>>,
}

impl Attempts {
    /// Until when the newest attempt warns that is none of the page's own; `None` when no attempt warns.
    pub fn warn_until(&self, own: &[AttemptId], now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let live = self.kept.iter().filter(|attempt| attempt.is_live(now));
        let others = live.filter(|attempt| !own.contains(&attempt.id));
        let others = others.map(|attempt| attempt.noted_at + LASTS).max();
        others.max(self.live_warning(now))
    }

    /// The attempts that warn, without one that is withdrawn.
    #[must_use]
    pub fn withdraw(&self, withdrawn: AttemptId, now: DateTime<Utc>) -> Self {
        let others = self.kept.iter().filter(|attempt| attempt.id != withdrawn);
        Self {
            kept: others.filter(|attempt| attempt.is_live(now)).cloned().collect(),
            warned_until: self.live_warning(now),
        }
    }

    /// The attempts that warn once another one is noted, which is the last of them.
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
            SecurePaymentStatus,
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
    fn an_attempt_is_noted_once_and_warns_for_half_an_hour() {
        let mut payment = link(SecurePaymentStatus::Pending);
        for second in [10, 20] {
            payment.attempts = payment.attempts.note(id(7), at(second));
        }
        assert_eq!(payment.attempts.kept, [attempt(7, 20)]);
        assert_eq!(payment.in_flight_until(false, at(1_819)), Some(at(1_820)));
        assert_eq!(payment.in_flight_until(false, at(1_820)), None);
        assert_eq!(payment.in_flight_until(false, at(18)), None, "the clock was set back");
        assert_eq!(payment.attempts.warn_until(&[id(7)], at(30)), None, "its own page");
        assert_eq!(payment.attempts.warn_until(&[id(8)], at(30)), Some(at(1_820)));
        assert_eq!(payment.attempts.note(id(8), at(1_820)).kept, [attempt(8, 1_820)]);
        assert_eq!(payment.attempts.withdraw(id(8), at(30)).kept, [attempt(7, 20)]);
        assert_eq!(payment.attempts.withdraw(id(7), at(30)).kept, []);
    }

    #[test]
    fn an_attempt_that_had_to_make_room_warns_until_its_time_is_over() {
        let mut attempts = Attempts::default();
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
        assert_eq!(attempts.withdraw(id(0), at(1_810)), Attempts::default());
    }

    #[test]
    fn an_id_is_thirty_two_hexadecimal_digits_and_does_not_print() {
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
