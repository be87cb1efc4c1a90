//! Recurring payments: the payer signs once, and the service executes a number of payments, each when it is due.

pub mod allowance;
pub mod maker;
pub mod plan;

use super::{
    amount::Amount,
    ids::{PlatformId, RequestId, RequestRowId, ScheduleId},
    network::Network,
    permit::{Permit, PermitSignature},
    refusal::Refusal,
    request::Origin,
    wire_text::wire_text,
};
use alloy::primitives::U256;
use chrono::{DateTime, TimeDelta, Utc};

/// Pause reason of a schedule whose permit has expired.
pub const PERMIT_EXPIRED: &str = "Permit expired";

/// Cancellation reason of a schedule that its payer did not sign in time.
pub const NOT_SIGNED: &str = "Not signed in time";

wire_text! {
    /// State of a schedule. Source: rules S.4.
    pub enum ScheduleStatus {
        /// The payer has not signed.
        Pending = "pending",
        /// The payments of the schedule are executed when they are due.
        Active = "active",
        /// Executions failed, and the schedule waits to be resumed.
        Paused = "paused",
        /// Every payment was executed.
        Completed = "completed",
        /// No more payments are executed.
        Cancelled = "cancelled",
    }
}

/// Rules for failed executions.
#[derive(Debug, Clone, Copy)]
pub struct RetryRules {
    /// Number of failures in a row after which a schedule is paused.
    pub failures_max: u32,
    /// Time between a failure and the next attempt.
    pub pause: TimeDelta,
}

/// The requested amount of each payment, before its conversion to units of the token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskedAmount {
    /// In human units.
    pub amount: Amount,
    /// Canonical id of its currency.
    pub currency: String,
}

/// A recurring payment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    /// Public id.
    pub id: ScheduleId,
    /// Who created it.
    pub origin: Origin,
    /// Network.
    pub network: Network,
    /// The permit for the payer to sign.
    pub permit: Permit,
    /// The requested amount of each payment.
    pub asked: AskedAmount,
    /// The payer's signature, once signed.
    pub signature: Option<PermitSignature>,
    /// State.
    pub status: ScheduleStatus,
    /// Number of executed and final payments.
    pub executed: u8,
    /// Number of failures since the last payment or the last resumption.
    pub failures: u32,
    /// Why the last one failed.
    pub failure_reason: Option<String>,
    /// When the relayer processes the schedule next; `None` while there is nothing to do, and while a payment is in
    /// flight.
    pub wake_at: Option<DateTime<Utc>>,
    /// Time of the last payment.
    pub last_paid_at: Option<DateTime<Utc>>,
    /// Version for optimistic locking, incremented by every change.
    pub version: u64,
    /// Time of creation.
    pub created_at: DateTime<Utc>,
}

/// One payment of a schedule, and the request that it pays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Execution {
    /// The schedule.
    pub schedule: ScheduleId,
    /// Tenant.
    pub platform: PlatformId,
    /// Which payment, from 1.
    pub number: u8,
    /// Row of the request.
    pub request: RequestRowId,
    /// Public id of the request.
    pub request_id: RequestId,
    /// How often it failed.
    pub failures: u32,
    /// Time of creation.
    pub created_at: DateTime<Utc>,
}

/// Units that the remaining payments take from a payer; `each` are the units of one payment.
pub fn remaining_units(each: [u128; 3], total: u8, executed: u8) -> U256 {
    let each = each.map(U256::from).into_iter().fold(U256::ZERO, U256::saturating_add);
    // 130 bits and 8 bits are less than 256.
    each * U256::from(total.saturating_sub(executed))
}

impl Schedule {
    /// A schedule that waits for the signature of its payer.
    pub fn unsigned(
        id: ScheduleId,
        origin: Origin,
        network: Network,
        permit: Permit,
        asked: AskedAmount,
        now: DateTime<Utc>,
    ) -> Self {
        Self {
            id,
            origin,
            network,
            permit,
            asked,
            signature: None,
            status: ScheduleStatus::Pending,
            executed: 0,
            failures: 0,
            failure_reason: None,
            wake_at: None,
            last_paid_at: None,
            version: 1,
            created_at: now,
        }
    }

    /// Number of the next payment, from 1; `None` when all were executed.
    pub fn next_number(&self) -> Option<u8> {
        (self.executed < self.permit.total_payments).then(|| self.executed + 1)
    }

    /// When a payment is due; payments are counted from 1.
    pub fn due_at(&self, number: u8) -> DateTime<Utc> {
        // A date can hold 32-bit seconds plus 255 periods of 32 bits.
        let seconds = i64::try_from(self.permit.due_s(number)).unwrap_or(i64::MAX);
        DateTime::from_timestamp(seconds, 0).unwrap_or(DateTime::<Utc>::MAX_UTC)
    }

    /// When the next payment is due; `None` when no payment will be executed automatically.
    pub fn next_payment_at(&self) -> Option<DateTime<Utc>> {
        let is_open = matches!(self.status, ScheduleStatus::Pending | ScheduleStatus::Active);
        self.next_number().filter(|_| is_open).map(|number| self.due_at(number))
    }

    /// Whether a transaction with the next payment may be in flight.
    pub fn has_payment_in_flight(&self) -> bool {
        self.status == ScheduleStatus::Active && self.wake_at.is_none()
    }

    /// Number of remaining payments.
    pub fn remaining(&self) -> u8 {
        self.permit.total_payments.saturating_sub(self.executed)
    }

    /// Units that the remaining payments take from the payer.
    pub fn remaining_units(&self) -> U256 {
        let Permit {
            amount,
            fee,
            relayer_fee,
            total_payments,
            ..
        } = self.permit;
        remaining_units([amount, fee, relayer_fee], total_payments, self.executed)
    }

    /// Whether its permit has expired.
    pub fn is_expired(&self, now: DateTime<Utc>) -> bool {
        u64::try_from(now.timestamp()).is_ok_and(|now_s| now_s > self.permit.deadline_s)
    }

    /// The schedule after its payer signed; `lapse_after` is the time limit for signing. Errors: it is already signed,
    /// it has ended, its permit has expired, or the time limit has passed. Source: rules S.4.
    pub fn activated(
        &self,
        signature: PermitSignature,
        now: DateTime<Utc>,
        lapse_after: TimeDelta,
    ) -> Result<Self, Refusal> {
        match self.status {
            ScheduleStatus::Pending if self.is_expired(now) => Err(Refusal::invalid(PERMIT_EXPIRED)),
            ScheduleStatus::Pending if now - self.created_at > lapse_after => Err(Refusal::invalid(NOT_SIGNED)),
            ScheduleStatus::Pending => Ok(Self {
                status: ScheduleStatus::Active,
                signature: Some(signature),
                ..self.clone()
            }
            .awake()),
            ScheduleStatus::Active => Err(Refusal::invalid("Recurring payment is already active")),
            other => Err(Refusal::invalid(format!("Recurring payment is {}", other.wire()))),
        }
    }

    /// The schedule while a payment is in flight.
    #[must_use]
    pub fn in_flight(&self) -> Self {
        Self {
            wake_at: None,
            ..self.clone()
        }
    }

    /// The schedule after a payment was executed and is final; `paid_at` is the time of the payment, if known. A
    /// schedule that was cancelled in the meantime stays cancelled.
    #[must_use]
    pub fn advanced(&self, paid_at: Option<DateTime<Utc>>) -> Self {
        let executed = self.executed.saturating_add(1);
        let is_complete = executed >= self.permit.total_payments && self.status != ScheduleStatus::Cancelled;
        Self {
            executed,
            failures: 0,
            failure_reason: None,
            last_paid_at: paid_at.or(self.last_paid_at),
            status: if is_complete {
                ScheduleStatus::Completed
            } else {
                self.status
            },
            ..self.clone()
        }
        .awake()
    }

    /// The schedule after an execution failed. The next attempt comes later; after the last allowed attempt, the
    /// schedule is paused.
    #[must_use]
    pub fn failed(&self, reason: &str, now: DateTime<Utc>, rules: &RetryRules) -> Self {
        let failures = self.failures.saturating_add(1);
        let is_active = self.status == ScheduleStatus::Active;
        let is_paused = is_active && failures >= rules.failures_max;
        Self {
            failures,
            failure_reason: Some(reason.to_owned()),
            status: if is_paused { ScheduleStatus::Paused } else { self.status },
            wake_at: (is_active && !is_paused).then(|| now + rules.pause),
            ..self.clone()
        }
    }

    /// The schedule after a reorganisation removed payments. All payments after the first `count` are executed again.
    #[must_use]
    pub fn taken_back(&self, count: u8) -> Self {
        Self {
            executed: count.min(self.executed),
            ..self.clone()
        }
        .awake()
    }

    /// The schedule after its permit expired: it is paused.
    #[must_use]
    pub fn expired(&self) -> Self {
        Self {
            status: ScheduleStatus::Paused,
            failure_reason: Some(PERMIT_EXPIRED.to_owned()),
            wake_at: None,
            ..self.clone()
        }
    }

    /// The resumed schedule; missed payments are due immediately. Errors: it is not paused, or its permit has expired.
    pub fn unpaused(&self, now: DateTime<Utc>) -> Result<Self, Refusal> {
        if self.status != ScheduleStatus::Paused {
            return Err(Refusal::invalid("Recurring payment is not paused"));
        }
        if self.is_expired(now) {
            return Err(Refusal::invalid(PERMIT_EXPIRED));
        }
        Ok(Self {
            status: ScheduleStatus::Active,
            failures: 0,
            failure_reason: None,
            ..self.clone()
        }
        .awake())
    }

    /// The cancelled schedule. A payment in flight is still executed. Errors: it has already ended.
    pub fn cancelled(&self) -> Result<Self, Refusal> {
        match self.status {
            ScheduleStatus::Cancelled => Err(Refusal::invalid("Recurring payment is already cancelled")),
            ScheduleStatus::Completed => Err(Refusal::invalid("Cannot cancel a completed recurring payment")),
            ScheduleStatus::Pending | ScheduleStatus::Active | ScheduleStatus::Paused => Ok(Self {
                status: ScheduleStatus::Cancelled,
                wake_at: None,
                ..self.clone()
            }),
        }
    }

    /// The schedule after its payer did not sign in time: it is cancelled.
    #[must_use]
    pub fn lapsed(&self) -> Self {
        Self {
            status: ScheduleStatus::Cancelled,
            failure_reason: Some(NOT_SIGNED.to_owned()),
            ..self.clone()
        }
    }

    /// Sets the next pass of the relayer to the time at which the next payment is due.
    fn awake(self) -> Self {
        let is_active = self.status == ScheduleStatus::Active;
        let next = self.next_number().filter(|_| is_active);
        Self {
            wake_at: next.map(|number| self.due_at(number)),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::address::Address;
    use alloy::primitives::Address as EvmAddress;

    const DAY_S: u32 = 86_400;
    const DAY: TimeDelta = TimeDelta::days(1);

    fn at(day: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(1_790_000_000, 0).unwrap() + TimeDelta::days(day)
    }

    fn rules() -> RetryRules {
        RetryRules {
            failures_max: 3,
            pause: TimeDelta::hours(1),
        }
    }

    fn schedule(total: u8) -> Schedule {
        let address = |last| Address::Evm(EvmAddress::with_last_byte(last));
        let origin = Origin {
            platform: PlatformId("p".into()),
            client: None,
            client_id: None,
            page: None,
            orchestrator: None,
        };
        let permit = Permit {
            chain_id: 11_155_111,
            contract: address(1),
            subscriber: address(2),
            token: address(3),
            recipient: address(4),
            fee_address: None,
            amount: 100,
            fee: 2,
            relayer_fee: 1,
            period_s: DAY_S,
            first_payment_s: 1_790_000_000,
            total_payments: total,
            nonce: U256::from(7),
            deadline_s: 1_790_000_000 + 40 * u64::from(DAY_S),
        };
        let asked = AskedAmount {
            amount: Amount::parse("100").unwrap(),
            currency: "FAU-sepolia".into(),
        };
        let id = ScheduleId("s".into());
        Schedule::unsigned(id, origin, Network::Sepolia, permit, asked, at(-1))
    }

    fn active(total: u8) -> Schedule {
        let signature = PermitSignature::parse(&[[1; 64].as_slice(), &[27]].concat()).unwrap();
        schedule(total).activated(signature, at(-1), DAY).unwrap()
    }

    fn said(result: Result<Schedule, Refusal>) -> String {
        result.unwrap_err().message
    }

    #[test]
    fn payments_are_executed_in_sequence_until_the_last() {
        let mut schedule = active(3);
        for number in 0..3 {
            assert_eq!(schedule.wake_at, Some(at(number)));
            assert_eq!(schedule.next_payment_at(), Some(at(number)));
            assert_eq!(schedule.in_flight().wake_at, None);
            schedule = schedule.in_flight().advanced(Some(at(number)));
        }
        assert_eq!(schedule.status, ScheduleStatus::Completed);
        assert_eq!(
            (schedule.wake_at, schedule.next_payment_at(), schedule.remaining()),
            (None, None, 0)
        );
        assert_eq!(
            said(schedule.cancelled()),
            "Cannot cancel a completed recurring payment"
        );
        assert_eq!(said(schedule.unpaused(at(3))), "Recurring payment is not paused");
    }

    #[test]
    fn consecutive_failures_pause_and_a_success_resets_their_count() {
        let first = active(9).failed("no money", at(0), &rules());
        assert_eq!((first.status, first.failures), (ScheduleStatus::Active, 1));
        assert_eq!(first.wake_at, Some(at(0) + TimeDelta::hours(1)));
        let recovered = first.advanced(Some(at(0)));
        assert_eq!((recovered.failures, recovered.failure_reason), (0, None));
        let paused = first
            .failed("no money", at(0), &rules())
            .failed("no money", at(0), &rules());
        assert_eq!((paused.status, paused.wake_at), (ScheduleStatus::Paused, None));
        assert_eq!(paused.failure_reason.as_deref(), Some("no money"));
        let resumed = paused.unpaused(at(5)).unwrap();
        assert_eq!((resumed.status, resumed.failures), (ScheduleStatus::Active, 0));
        assert_eq!(resumed.wake_at, Some(at(0)), "the missed payment is due");
        assert_eq!(said(paused.unpaused(at(41))), PERMIT_EXPIRED);
    }

    #[test]
    fn a_cancelled_schedule_stays_cancelled_after_its_in_flight_payment() {
        let cancelled = active(2).in_flight().cancelled().unwrap();
        let executed = cancelled.advanced(Some(at(0))).advanced(None);
        assert_eq!((executed.status, executed.executed), (ScheduleStatus::Cancelled, 2));
        assert_eq!(executed.last_paid_at, Some(at(0)), "the last known time");
        let failed = cancelled.failed("no money", at(0), &rules());
        assert_eq!((failed.status, failed.wake_at), (ScheduleStatus::Cancelled, None));
        assert_eq!(said(cancelled.cancelled()), "Recurring payment is already cancelled");
    }

    #[test]
    fn only_a_schedule_awaiting_its_payer_can_be_signed() {
        let active = active(2);
        let signature = active.signature.unwrap();
        assert_eq!(
            said(active.activated(signature, at(0), DAY)),
            "Recurring payment is already active"
        );
        let cancelled = active.cancelled().unwrap();
        assert_eq!(
            said(cancelled.activated(signature, at(0), DAY)),
            "Recurring payment is cancelled"
        );
        assert_eq!(said(schedule(2).activated(signature, at(41), DAY)), PERMIT_EXPIRED);
        let late = at(0) + TimeDelta::milliseconds(1);
        assert_eq!(said(schedule(2).activated(signature, late, DAY)), NOT_SIGNED);
        let lapsed = schedule(2).lapsed();
        assert_eq!(
            said(lapsed.activated(signature, at(0), DAY)),
            "Recurring payment is cancelled"
        );
        assert!(schedule(2).activated(signature, at(0), DAY).is_ok());
    }
}
