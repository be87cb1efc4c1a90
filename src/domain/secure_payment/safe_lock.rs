//! Locks of a link while the owners of a Safe sign its payment. Meanwhile the service issues no calldata of the link, so
//! that it is not paid twice. A lock never stops a payment from being credited.

use super::{SecurePayment, lock::SafeLock};
use crate::domain::{address::Address, refusal::Refusal};
use alloy::primitives::B256;
use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};

/// Longest lock with a public credential, counted from the first lock of the Safe, and the default with a secret one.
const LOCK_MAX: TimeDelta = TimeDelta::hours(24);

/// How long a report with a public credential locks a link.
const PUBLIC_LOCK: TimeDelta = TimeDelta::hours(1);

/// Who asks for a lock, and for how long.
#[derive(Debug, Clone, Copy)]
pub struct AskedLock {
    /// Hash of the transaction of the Safe.
    pub safe_tx_hash: B256,
    /// The Safe.
    pub safe: Option<Address>,
    /// Asked end.
    pub deadline: Option<DateTime<Utc>>,
    /// Whether the caller has a secret credential of the owner of the link.
    pub is_of_owner: bool,
    /// When the Safe first locked the link.
    pub first_locked_at: Option<DateTime<Utc>>,
}

impl SecurePayment {
    /// The lock at a time; `None` if the service issues calldata.
    pub fn locked_at(&self, now: DateTime<Utc>) -> Option<&SafeLock> {
        self.payable_at(now).ok()?;
        self.lock.as_ref().filter(|lock| lock.until >= now)
    }

    /// When a lock that begins now ends, unless the report says otherwise.
    pub fn usual_deadline(&self, is_of_owner: bool, now: DateTime<Utc>) -> DateTime<Utc> {
        let lasts = if is_of_owner { LOCK_MAX } else { PUBLIC_LOCK };
        (now + lasts).min(self.expires_at)
    }

    /// The lock for a Safe.
    ///
    /// A secret credential locks until the asked deadline, by default for a day, and at most until the link expires. A
    /// public credential locks for an hour from now or less, for at most a day in total for each Safe; it neither
    /// shortens a lock nor changes its Safe, and it does not extend a lock for which the owner named no Safe.
    ///
    /// Errors: another transaction or, for a public credential, another Safe locks the link (409); the deadline is in
    /// the past (400); the owner released a lock, or the Safe has used up its day (403).
    pub fn lock_for(&self, asked: &AskedLock, now: DateTime<Utc>) -> Result<SafeLock, Refusal> {
        let live = self.locked_at(now);
        let is_other = |lock: &SafeLock| {
            let is_other_safe = lock.safe.is_some() && lock.safe != asked.safe;
            lock.safe_tx_hash != asked.safe_tx_hash || (!asked.is_of_owner && is_other_safe)
        };
        if let Some(lock) = live.filter(|lock| is_other(lock)) {
            let until = lock.until.to_rfc3339_opts(SecondsFormat::Secs, true);
            let sentence =
                format!("Secure payment is in progress: another transaction of a Safe locks it until {until}");
            return Err(Refusal::conflict(sentence));
        }
        if asked.deadline.is_some_and(|deadline| deadline <= now) {
            let sentence = format!("must be in the future: Unix seconds after {}", now.timestamp());
            return Err(Refusal::field("safePaymentDeadline", sentence));
        }
        let usual = self.usual_deadline(asked.is_of_owner, now);
        let mut until = match asked.deadline {
            Some(deadline) if asked.is_of_owner => deadline.min(self.expires_at),
            Some(deadline) => deadline.min(usual),
            None => usual,
        };
        if !asked.is_of_owner {
            if self.locks_released_at.is_some() {
                let sentence =
                    "The creator of this link ended the lock of a Safe, so only the creator can lock it again";
                return Err(Refusal::forbidden(sentence));
            }
            let end = asked.first_locked_at.unwrap_or(now) + LOCK_MAX;
            if end <= now {
                let sentence = "This Safe has locked this link for 24 hours; pay without a lock, or ask the creator";
                return Err(Refusal::forbidden(sentence));
            }
            until = until.min(end);
        }
        let (safe, until) = match live.filter(|_| !asked.is_of_owner) {
            // Only the owner locks without a Safe, and a public credential changes nothing about that lock.
            Some(lock) if lock.safe.is_none() => (None, lock.until),
            Some(lock) => (lock.safe, lock.until.max(until)),
            None => (asked.safe, until),
        };
        Ok(SafeLock {
            safe_tx_hash: asked.safe_tx_hash,
            safe,
            until,
        })
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

    const HOUR: i64 = 3_600;
    const DAY: i64 = 24 * HOUR;

    fn asked(hash: u8, is_of_owner: bool) -> AskedLock {
        AskedLock {
            safe_tx_hash: B256::repeat_byte(hash),
            safe: None,
            deadline: None,
            is_of_owner,
            first_locked_at: None,
        }
    }

    fn long_link() -> SecurePayment {
        SecurePayment {
            expires_at: at(10 * DAY),
            ..link(SecurePaymentStatus::Pending)
        }
    }

    #[test]
    fn a_lock_lasts_as_long_as_the_credential_allows() {
        let day_ago = |second| Some(at(second - DAY));
        for (is_of_owner, deadline, first, now, until) in [
            (true, None, None, 0, Some(DAY)),
            (true, Some(3 * DAY), None, 0, Some(3 * DAY)),
            (true, Some(20 * DAY), None, 0, Some(10 * DAY)),
            (true, None, None, 10 * DAY - 5, Some(10 * DAY)),
            (true, Some(5), None, 5, None),
            (false, None, None, 0, Some(HOUR)),
            (false, Some(60), None, 0, Some(60)),
            (false, Some(3 * DAY), None, 0, Some(HOUR)),
            (false, None, Some(at(0)), DAY - 60, Some(DAY)),
            (false, None, day_ago(2 * DAY), 2 * DAY, None),
        ] {
            let asked = AskedLock {
                deadline: deadline.map(at),
                first_locked_at: first,
                ..asked(1, is_of_owner)
            };
            let lock = long_link().lock_for(&asked, at(now)).ok();
            assert_eq!(
                lock.map(|lock| lock.until),
                until.map(at),
                "{is_of_owner} {deadline:?} {now}"
            );
        }
    }

    #[test]
    fn a_public_report_neither_shortens_a_lock_nor_changes_its_safe() {
        let mut payment = long_link();
        let [own, other] = [0x11, 0x22].map(|byte| Some(Address::Evm([byte; 20].into())));
        let by = |is_of_owner: bool, safe: Option<Address>| AskedLock {
            safe,
            deadline: Some(at(60)),
            ..asked(1, is_of_owner)
        };
        for (of_owner, of_public, expected) in [(own, own, Some(own)), (None, other, Some(None)), (own, other, None)] {
            payment.lock = None;
            let first = AskedLock {
                deadline: None,
                ..by(true, of_owner)
            };
            payment.lock = payment.lock_for(&first, at(0)).ok();
            let again = payment.lock_for(&by(false, of_public), at(10)).ok();
            assert_eq!(
                again.as_ref().map(|lock| lock.safe),
                expected,
                "{of_owner:?} {of_public:?}"
            );
            assert!(again.is_none_or(|lock| lock.until == at(DAY)));
        }
        payment.lock = payment.lock_for(&by(true, None), at(10)).ok();
        let again = AskedLock {
            deadline: None,
            ..by(false, own)
        };
        let again = payment.lock_for(&again, at(20)).ok();
        assert_eq!(
            again.map(|lock| (lock.safe, lock.until)),
            Some((None, at(60))),
            "a public report does not extend it"
        );
        payment.lock = payment.lock_for(&by(true, own), at(10)).ok();
        assert_eq!(
            payment.lock.map(|lock| lock.until),
            Some(at(60)),
            "the owner can shorten it"
        );
    }

    #[test]
    fn one_transaction_locks_a_link_until_its_end() {
        let mut payment = long_link();
        payment.lock = payment.lock_for(&asked(1, false), at(0)).ok();
        assert!(payment.locked_at(at(HOUR)).is_some());
        assert!(payment.locked_at(at(HOUR + 1)).is_none());
        assert!(payment.lock_for(&asked(2, false), at(HOUR)).is_err());
        assert!(payment.lock_for(&asked(1, false), at(HOUR)).is_ok());
        assert!(payment.lock_for(&asked(2, false), at(HOUR + 1)).is_ok());
        payment.locks_released_at = Some(at(5));
        assert!(payment.lock_for(&asked(1, false), at(10)).is_err());
        assert!(payment.lock_for(&asked(1, true), at(10)).is_ok());
        payment.status = SecurePaymentStatus::Completed;
        assert!(payment.locked_at(at(10)).is_none(), "a paid link is not locked");
    }
}
