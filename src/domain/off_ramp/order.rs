//! How far the payout of a request is: every state, and what each piece of news makes of it.

use crate::domain::{
    ids::{BankAccountId, OffRampOrderId, OffRampQuoteId, PayerId, PlatformId, RequestRowId},
    wire_text::wire_text,
};
use alloy::primitives::{B256, U256};
use chrono::{DateTime, TimeDelta, Utc};

/// Shortest pause between two questions about the same order.
const ASKED_MIN: TimeDelta = TimeDelta::seconds(30);

/// Longest one.
const ASKED_MAX: TimeDelta = TimeDelta::hours(1);

/// No question about an order is put off for longer.
pub const PUT_OFF_MAX: TimeDelta = ASKED_MAX;

/// Pause after the first failure to open an order; each further one doubles it.
const OPENED_MIN: TimeDelta = TimeDelta::seconds(2);

/// Longest one.
const OPENED_MAX: TimeDelta = TimeDelta::minutes(10);

/// Age without news from which an order is something for the operator.
pub const SILENT_AFTER: TimeDelta = TimeDelta::days(1);

wire_text! {
    /// How far a payout to a bank account is. Source: interface §3; rules S.7.
    pub enum OffRampStatus {
        /// Begun.
        Initiated = "initiated",
        /// Waits for the provider.
        PendingInternalAssessment = "pending_internal_assessment",
        /// Being checked.
        OngoingChecks = "ongoing_checks",
        /// On its way to the bank.
        SendingFiat = "sending_fiat",
        /// Handed to the bank.
        FiatSent = "fiat_sent",
        /// Came back from the bank.
        Bounced = "bounced",
    }
}

wire_text! {
    /// State of an order. Source: rules S.7.
    pub enum OrderState {
        /// The whole amount has arrived, and the partner is to be asked.
        Due = "due",
        /// The money left the chain before the partner was asked.
        Stopped = "stopped",
        /// The partner was asked, and whether it has the order is not known yet.
        Asked = "asked",
        /// Begun.
        Initiated = "initiated",
        /// Waits for the partner.
        PendingInternalAssessment = "pending_internal_assessment",
        /// Being checked.
        OngoingChecks = "ongoing_checks",
        /// On its way to the bank.
        SendingFiat = "sending_fiat",
        /// Handed to the bank.
        FiatSent = "fiat_sent",
        /// Came back from the bank.
        Bounced = "bounced",
        /// Given up.
        Failed = "failed",
    }
}

wire_text! {
    /// What moves an order, besides the partner's word for it. Source: rules S.7.
    pub enum OrderTrigger {
        /// The whole amount is there.
        Complete = "complete",
        /// It is there no more.
        Reversed = "reversed",
        /// The partner is asked.
        Ask = "ask",
        /// It was not asked after all: nothing was sent.
        Unsent = "unsent",
        /// The operator ends it without the partner.
        Close = "close",
        /// The partner says that it has begun.
        Initiated = "initiated",
        /// It says that the order waits.
        PendingInternalAssessment = "pending_internal_assessment",
        /// It says that the order is checked.
        OngoingChecks = "ongoing_checks",
        /// It says that the money is on its way.
        SendingFiat = "sending_fiat",
        /// It says that the bank has the money.
        FiatSent = "fiat_sent",
        /// It says that the money came back.
        Bounced = "bounced",
        /// It says that it gave up.
        Failed = "failed",
    }
}

/// What a trigger makes of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// It is in this state now.
    To(OrderState),
    /// It was there already, or is past that.
    Nothing,
    /// Nobody may do that any more; what follows is an operator's case.
    Barred,
}

impl OrderState {
    /// Whether the partner has been asked, so that what it does is no longer ours to stop.
    pub const fn is_asked(self) -> bool {
        !matches!(self, Self::Due | Self::Stopped)
    }

    /// Whether money is on its way.
    pub const fn is_open(self) -> bool {
        matches!(
            self,
            Self::Due
                | Self::Asked
                | Self::Initiated
                | Self::PendingInternalAssessment
                | Self::OngoingChecks
                | Self::SendingFiat
        )
    }

    /// Those of [`Self::is_open`].
    pub const OPEN: [Self; 6] = [
        Self::Due,
        Self::Asked,
        Self::Initiated,
        Self::PendingInternalAssessment,
        Self::OngoingChecks,
        Self::SendingFiat,
    ];

    /// How far along the way it is.
    const fn rank(self) -> u8 {
        match self {
            Self::Due | Self::Stopped => 0,
            Self::Asked => 1,
            Self::Initiated => 2,
            Self::PendingInternalAssessment => 3,
            Self::OngoingChecks => 4,
            Self::SendingFiat => 5,
            Self::FiatSent => 6,
            Self::Bounced | Self::Failed => 7,
        }
    }

    /// The sub-status that is told of it; `None` of what only this service knows, and of a failure.
    pub const fn told(self) -> Option<OffRampStatus> {
        match self {
            Self::Initiated => Some(OffRampStatus::Initiated),
            Self::PendingInternalAssessment => Some(OffRampStatus::PendingInternalAssessment),
            Self::OngoingChecks => Some(OffRampStatus::OngoingChecks),
            Self::SendingFiat => Some(OffRampStatus::SendingFiat),
            Self::FiatSent => Some(OffRampStatus::FiatSent),
            Self::Bounced => Some(OffRampStatus::Bounced),
            Self::Due | Self::Stopped | Self::Asked | Self::Failed => None,
        }
    }

    /// What a trigger makes of it: forward, also past what was never told; never back. Money that the bank has can only come
    /// back, and what has failed stays so. Source: rules S.7.
    pub const fn after(self, trigger: OrderTrigger) -> Step {
        let told = match trigger {
            OrderTrigger::Complete => {
                return match self {
                    Self::Stopped => Step::To(Self::Due),
                    _ => Step::Nothing,
                };
            }
            OrderTrigger::Reversed => {
                return match self {
                    Self::Due => Step::To(Self::Stopped),
                    Self::Stopped => Step::Nothing,
                    _ => Step::Barred,
                };
            }
            OrderTrigger::Ask => {
                return match self {
                    Self::Due => Step::To(Self::Asked),
                    Self::Stopped => Step::Barred,
                    _ => Step::Nothing,
                };
            }
            OrderTrigger::Unsent => {
                return match self {
                    Self::Asked => Step::To(Self::Due),
                    _ => Step::Nothing,
                };
            }
            OrderTrigger::Close => {
                return match self {
                    Self::Due | Self::Stopped | Self::Asked => Step::To(Self::Failed),
                    Self::FiatSent | Self::Bounced | Self::Failed => Step::Nothing,
                    _ => Step::Barred,
                };
            }
            OrderTrigger::Initiated => Self::Initiated,
            OrderTrigger::PendingInternalAssessment => Self::PendingInternalAssessment,
            OrderTrigger::OngoingChecks => Self::OngoingChecks,
            OrderTrigger::SendingFiat => Self::SendingFiat,
            OrderTrigger::FiatSent => Self::FiatSent,
            OrderTrigger::Bounced => Self::Bounced,
            OrderTrigger::Failed => Self::Failed,
        };
        if !self.is_asked() {
            return Step::Barred;
        }
        let is_given_up_too_late = matches!((self, told), (Self::FiatSent, Self::Failed));
        if told.rank() > self.rank() && !is_given_up_too_late {
            Step::To(told)
        } else {
            Step::Nothing
        }
    }
}

impl OrderTrigger {
    /// The partner's word as a trigger; `None` stands for that it gave up.
    pub const fn of(status: Option<OffRampStatus>) -> Self {
        match status {
            Some(OffRampStatus::Initiated) => Self::Initiated,
            Some(OffRampStatus::PendingInternalAssessment) => Self::PendingInternalAssessment,
            Some(OffRampStatus::OngoingChecks) => Self::OngoingChecks,
            Some(OffRampStatus::SendingFiat) => Self::SendingFiat,
            Some(OffRampStatus::FiatSent) => Self::FiatSent,
            Some(OffRampStatus::Bounced) => Self::Bounced,
            None => Self::Failed,
        }
    }
}

/// What the partner is asked to pay out, kept before it is: however often it is asked, it is asked for the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskedFor {
    /// Token units.
    pub units: U256,
    /// How many payments brought them.
    pub payments: u32,
    /// Their transactions, the oldest first.
    pub transactions: Vec<B256>,
}

impl AskedFor {
    /// All of these payments, by transaction and units, the oldest first.
    pub fn of(payments: impl IntoIterator<Item = (B256, U256)>) -> Self {
        let mut asked = Self {
            units: U256::ZERO,
            payments: 0,
            transactions: Vec::new(),
        };
        for (tx_hash, units) in payments {
            asked.units = asked.units.saturating_add(units);
            asked.payments = asked.payments.saturating_add(1);
            if !asked.transactions.contains(&tx_hash) {
                asked.transactions.push(tx_hash);
            }
        }
        asked
    }

    /// Whether these payments, which count now, still have the money. Other transactions do not stand in for those that were
    /// named.
    pub fn is_there(&self, payments: impl IntoIterator<Item = (B256, U256)>) -> bool {
        let named = payments
            .into_iter()
            .filter(|(tx_hash, _)| self.transactions.contains(tx_hash));
        Self::of(named).units >= self.units
    }

    /// The same units in the first of these payments, the oldest first, that bring them: the money came back in other
    /// transactions. `None` where they do not bring it.
    pub fn brought_by<P: Clone>(&self, payments: &[P], of: impl Fn(&P) -> (B256, U256)) -> Option<(Self, P)> {
        let mut brought = Vec::new();
        for payment in payments {
            brought.push(of(payment));
            let again = Self::of(brought.iter().copied());
            if again.units >= self.units {
                let again = Self {
                    units: self.units,
                    ..again
                };
                return Some((again, payment.clone()));
            }
        }
        None
    }
}

/// The order by which the money of a request reaches a bank account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FiatOrder {
    /// Its id, which events tell.
    pub id: OffRampOrderId,
    /// Tenant.
    pub platform: PlatformId,
    /// Row of the request.
    pub request: RequestRowId,
    /// The quote under which its last payment arrived.
    pub quote: OffRampQuoteId,
    /// Row of the payer.
    pub payer: PayerId,
    /// Row of the bank account.
    pub account: BankAccountId,
    /// What the partner was asked for, once it was.
    pub asked: Option<AskedFor>,
    /// The partner's id of it, once it is known.
    pub partner_id: Option<String>,
    /// State.
    pub state: OrderState,
    /// Number of the newest news; 0 before any.
    pub version: u64,
    /// The partner's own word for the state, or what keeps it from being opened.
    pub word: Option<String>,
    /// Questions in a row that brought nothing.
    pub failures: u32,
    /// When the partner is asked next; `None` when there is nothing to ask.
    pub next_at: Option<DateTime<Utc>>,
    /// When something of it changed.
    pub changed_at: DateTime<Utc>,
    /// When the money was complete.
    pub created_at: DateTime<Utc>,
}

impl FiatOrder {
    /// What news makes of it: of a number that is not above the known one, nothing.
    pub fn after_news(&self, version: u64, status: Option<OffRampStatus>) -> Step {
        if version <= self.version {
            return Step::Nothing;
        }
        self.state.after(OrderTrigger::of(status))
    }
}

/// When the partner is asked for news of an order that changed at a time: after a part of its age, so that old ones are
/// asked about less and less.
pub fn ask_again_after(changed_at: DateTime<Utc>, now: DateTime<Utc>) -> TimeDelta {
    ((now - changed_at) / 4).clamp(ASKED_MIN, ASKED_MAX)
}

/// When the partner is asked again to open an order, after so many failures in a row.
pub fn open_again_after(failures: u32) -> TimeDelta {
    let doublings = i32::try_from(failures.saturating_sub(1).min(16)).unwrap_or(16);
    (OPENED_MIN * (1 << doublings)).min(OPENED_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every state by every trigger, as `states.md` has them. `+` is the state of the trigger, `.` nothing, `x` barred.
    const TABLE: [(OrderState, &str); 10] = {
        use OrderState::*;
        //  complete, reversed, ask, unsent, close, initiated, pending, checks, sending, sent, bounced, failed
        [
            (Due, ". s + . f x x x x x x x"),
            (Stopped, "d . x . f x x x x x x x"),
            (Asked, ". x . d f + + + + + + +"),
            (Initiated, ". x . . x . + + + + + +"),
            (PendingInternalAssessment, ". x . . x . . + + + + +"),
            (OngoingChecks, ". x . . x . . . + + + +"),
            (SendingFiat, ". x . . x . . . . + + +"),
            (FiatSent, ". x . . . . . . . . + ."),
            (Bounced, ". x . . . . . . . . . ."),
            (Failed, ". x . . . . . . . . . ."),
        ]
    };

    #[test]
    fn every_state_by_every_trigger_goes_where_the_table_says() {
        let (mut moved, mut nothing, mut barred) = (0, 0, 0);
        assert_eq!(TABLE.map(|(state, _)| state), OrderState::ALL);
        for (state, row) in TABLE {
            for (cell, trigger) in row.split(' ').zip(OrderTrigger::ALL) {
                let step = state.after(trigger);
                let expected = match cell {
                    "." => Step::Nothing,
                    "x" => Step::Barred,
                    "s" => Step::To(OrderState::Stopped),
                    "d" => Step::To(OrderState::Due),
                    "f" => Step::To(OrderState::Failed),
                    _ if trigger == OrderTrigger::Ask => Step::To(OrderState::Asked),
                    _ => Step::To(OrderState::from_wire(trigger.wire()).unwrap()),
                };
                assert_eq!(step, expected, "{} by {}", state.wire(), trigger.wire());
                match step {
                    Step::To(_) => moved += 1,
                    Step::Nothing => nothing += 1,
                    Step::Barred => barred += 1,
                }
            }
            println!("{:28} {row}", state.wire());
        }
        println!("{moved} transitions, {nothing} without effect, {barred} barred");
        assert_eq!(moved + nothing + barred, 120);
    }

    #[test]
    fn only_the_transactions_that_were_named_have_the_money() {
        let [one, two, other] = [1, 2, 3].map(B256::with_last_byte);
        let units = |units: u64| U256::from(units);
        let asked = AskedFor::of([(one, units(4)), (two, units(5)), (two, units(1))]);
        assert_eq!((asked.units, asked.payments), (units(10), 3));
        assert_eq!(asked.transactions, [one, two]);
        for (payments, is_there) in [
            (vec![(one, 4), (two, 5), (two, 1)], true),
            (vec![(one, 4), (two, 6), (other, 9)], true),
            (vec![(one, 4), (two, 5)], false),
            (vec![(two, 6), (other, 9)], false),
            (vec![], false),
        ] {
            let now = payments.iter().map(|(tx_hash, brought)| (*tx_hash, units(*brought)));
            assert_eq!(asked.is_there(now), is_there, "{payments:?}");
        }
        let again =
            |payments: &[(B256, u64)]| asked.brought_by(payments, |(tx_hash, brought)| (*tx_hash, units(*brought)));
        let (named, last) = again(&[(two, 6), (other, 9), (one, 1)]).unwrap();
        assert_eq!((named.units, named.payments, last), (units(10), 2, (other, 9)));
        assert_eq!(named.transactions, [two, other]);
        assert_eq!(again(&[(other, 9)]), None);
    }

    #[test]
    fn what_is_open_is_on_the_list_of_it() {
        let open: Vec<OrderState> = OrderState::ALL.into_iter().filter(|state| state.is_open()).collect();
        assert_eq!(open, OrderState::OPEN);
    }

    #[test]
    fn questions_grow_rarer_with_age_and_with_failures() {
        let now = DateTime::UNIX_EPOCH + TimeDelta::days(100);
        for (age, pause) in [
            (TimeDelta::zero(), ASKED_MIN),
            (TimeDelta::minutes(8), TimeDelta::minutes(2)),
            (TimeDelta::days(3), ASKED_MAX),
            (TimeDelta::days(-1), ASKED_MIN),
        ] {
            assert_eq!(ask_again_after(now - age, now), pause);
        }
        let pauses = [0, 1, 2, 3, 9, 40].map(|failures| open_again_after(failures).num_seconds());
        assert_eq!(pauses, [2, 2, 4, 8, 512, 600]);
    }
}
