//! State of the payout order of a request: every state, and the effect of each piece of news.

use crate::domain::{
    ids::{BankAccountId, OffRampOrderId, OffRampQuoteId, PayerId, PlatformId, RequestRowId},
    wire_text::wire_text,
};
use alloy::primitives::{B256, U256};
use chrono::{DateTime, TimeDelta, Utc};

/// Shortest pause between two queries about the same order.
const ASKED_MIN: TimeDelta = TimeDelta::seconds(30);

/// Longest pause between two queries about the same order.
const ASKED_MAX: TimeDelta = TimeDelta::hours(1);

/// Maximum delay of a query about an order.
pub const PUT_OFF_MAX: TimeDelta = ASKED_MAX;

/// Pause after the first failed attempt to open an order. Each further failure doubles the pause.
const OPENED_MIN: TimeDelta = TimeDelta::seconds(2);

/// Longest one.
const OPENED_MAX: TimeDelta = TimeDelta::minutes(10);

/// Time without news from the partner after which the operator has to handle an order.
pub const SILENT_AFTER: TimeDelta = TimeDelta::days(1);

wire_text! {
    /// Status of a payout to a bank account. Source: interface §3; rules S.7.
    pub enum OffRampStatus {
        /// Begun.
        Initiated = "initiated",
        /// Waits for the provider.
        PendingInternalAssessment = "pending_internal_assessment",
        /// Being checked.
        OngoingChecks = "ongoing_checks",
        /// The money is on its way to the bank.
        SendingFiat = "sending_fiat",
        /// Handed to the bank.
        FiatSent = "fiat_sent",
        /// Returned by the bank.
        Bounced = "bounced",
    }
}

wire_text! {
    /// State of an order. Source: rules S.7.
    pub enum OrderState {
        /// The whole amount has arrived, and the partner has not been called yet.
        Due = "due",
        /// The money left the chain before the partner was called.
        Stopped = "stopped",
        /// The partner was called, but it is not known yet whether the partner has the order.
        Asked = "asked",
        /// Begun.
        Initiated = "initiated",
        /// Waits for the partner.
        PendingInternalAssessment = "pending_internal_assessment",
        /// Being checked.
        OngoingChecks = "ongoing_checks",
        /// The money is on its way to the bank.
        SendingFiat = "sending_fiat",
        /// Handed to the bank.
        FiatSent = "fiat_sent",
        /// Returned by the bank.
        Bounced = "bounced",
        /// Abandoned.
        Failed = "failed",
    }
}

wire_text! {
    /// What changes an order, including the partner's news. Source: rules S.7.
    pub enum OrderTrigger {
        /// The whole amount has arrived.
        Complete = "complete",
        /// The money left the chain.
        Reversed = "reversed",
        /// The service is about to call the partner to open the order.
        Ask = "ask",
        /// The partner was not called after all: nothing was sent.
        Unsent = "unsent",
        /// The operator closes the order without the partner.
        Close = "close",
        /// The partner reports that the order has started.
        Initiated = "initiated",
        /// The partner reports that the order waits.
        PendingInternalAssessment = "pending_internal_assessment",
        /// The partner reports that the order is being checked.
        OngoingChecks = "ongoing_checks",
        /// The partner reports that the money is being sent.
        SendingFiat = "sending_fiat",
        /// The partner reports that the bank has the money.
        FiatSent = "fiat_sent",
        /// The partner reports that the bank returned the money.
        Bounced = "bounced",
        /// The partner reports that it gave up the order.
        Failed = "failed",
    }
}

/// Effect of a trigger on an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OrderTransition {
    /// It changes to this state.
    To(OrderState),
    /// No effect: the state was already reached or passed.
    Nothing,
    /// Not allowed in this state; the operator decides what follows.
    Barred,
}

impl OrderState {
    /// Whether the partner has been called, so that this service can no longer stop the payout.
    pub const fn is_asked(self) -> bool {
        !matches!(self, Self::Due | Self::Stopped)
    }

    /// Whether the payout is in progress.
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

    /// The states with [`Self::is_open`].
    pub const OPEN: [Self; 6] = [
        Self::Due,
        Self::Asked,
        Self::Initiated,
        Self::PendingInternalAssessment,
        Self::OngoingChecks,
        Self::SendingFiat,
    ];

    /// Position of the state in the sequence.
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

    /// The sub-status that events report; `None` for internal states and for a failed order.
    pub const fn reported_status(self) -> Option<OffRampStatus> {
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

    /// The state after a trigger. The state moves forward, even past states that were never reported, and never back.
    /// Money that the bank has can only be returned, and a failed order stays failed. Source: rules S.7.
    pub const fn after(self, trigger: OrderTrigger) -> OrderTransition {
        let told = match trigger {
            OrderTrigger::Complete => {
                return match self {
                    Self::Stopped => OrderTransition::To(Self::Due),
                    _ => OrderTransition::Nothing,
                };
            }
            OrderTrigger::Reversed => {
                return match self {
                    Self::Due => OrderTransition::To(Self::Stopped),
                    Self::Stopped => OrderTransition::Nothing,
                    _ => OrderTransition::Barred,
                };
            }
            OrderTrigger::Ask => {
                return match self {
                    Self::Due => OrderTransition::To(Self::Asked),
                    Self::Stopped => OrderTransition::Barred,
                    _ => OrderTransition::Nothing,
                };
            }
            OrderTrigger::Unsent => {
                return match self {
                    Self::Asked => OrderTransition::To(Self::Due),
                    _ => OrderTransition::Nothing,
                };
            }
            OrderTrigger::Close => {
                return match self {
                    Self::Due | Self::Stopped | Self::Asked => OrderTransition::To(Self::Failed),
                    Self::FiatSent | Self::Bounced | Self::Failed => OrderTransition::Nothing,
                    _ => OrderTransition::Barred,
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
            return OrderTransition::Barred;
        }
        let is_given_up_too_late = matches!((self, told), (Self::FiatSent, Self::Failed));
        if told.rank() > self.rank() && !is_given_up_too_late {
            OrderTransition::To(told)
        } else {
            OrderTransition::Nothing
        }
    }
}

impl OrderTrigger {
    /// Trigger for a status of the partner; `None` means that the partner gave up the order.
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

/// Payout that an order requests from the partner. It is stored before the first call, so that every retry sends the
/// same data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PayoutOrder {
    /// Token units.
    pub units: U256,
    /// Number of payments that brought these units.
    pub payments: u32,
    /// Their transactions, oldest first.
    pub transactions: Vec<B256>,
}

impl PayoutOrder {
    /// The payout of all these payments. Each is given by transaction and units, oldest first.
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

    /// Whether the payments that currently count still contain the money of the payout. Only payments from the recorded
    /// transactions of the payout are added up.
    pub fn is_there(&self, payments: impl IntoIterator<Item = (B256, U256)>) -> bool {
        let named = payments
            .into_iter()
            .filter(|(tx_hash, _)| self.transactions.contains(tx_hash));
        Self::of(named).units >= self.units
    }

    /// The same payout with other transactions, for money that left the chain and came back in other transactions. It
    /// takes the oldest of these payments until their units reach the payout. Also returns the last of the taken
    /// payments. `None` if all of them together do not reach the payout.
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

/// The order that pays the money of a request to a bank account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FiatOrder {
    /// Its id, which events contain.
    pub id: OffRampOrderId,
    /// Tenant.
    pub platform: PlatformId,
    /// Row of the request.
    pub request: RequestRowId,
    /// The quote under which the last payment of the request arrived.
    pub quote: OffRampQuoteId,
    /// Row of the payer.
    pub payer: PayerId,
    /// Row of the bank account.
    pub account: BankAccountId,
    /// Payout requested from the partner; `None` before the first call.
    pub asked: Option<PayoutOrder>,
    /// The partner's id of the order, once known.
    pub partner_id: Option<String>,
    /// State.
    pub state: OrderState,
    /// Number of the newest news of the partner; 0 before the first news.
    pub version: u64,
    /// The partner's own status word, or the reason why the order cannot be opened.
    pub word: Option<String>,
    /// Number of queries in a row without news.
    pub failures: u32,
    /// When the partner is queried next; `None` when there is nothing to query.
    pub next_at: Option<DateTime<Utc>>,
    /// When it last changed.
    pub changed_at: DateTime<Utc>,
    /// When the whole amount had arrived.
    pub created_at: DateTime<Utc>,
}

impl FiatOrder {
    /// Effect of news of the partner. News has no effect if its number is not higher than the number of the newest
    /// known news.
    pub fn after_news(&self, version: u64, status: Option<OffRampStatus>) -> OrderTransition {
        if version <= self.version {
            return OrderTransition::Nothing;
        }
        self.state.after(OrderTrigger::of(status))
    }
}

/// Time until the partner is queried again for news of an order that last changed at `changed_at`. It is a quarter of
/// the time since that change, from 30 seconds to one hour. So old orders are queried less often.
pub fn ask_again_after(changed_at: DateTime<Utc>, now: DateTime<Utc>) -> TimeDelta {
    ((now - changed_at) / 4).clamp(ASKED_MIN, ASKED_MAX)
}

/// Time until the call that opens an order is retried, after this number of failures in a row.
pub fn open_again_after(failures: u32) -> TimeDelta {
    let doublings = i32::try_from(failures.saturating_sub(1).min(16)).unwrap_or(16);
    (OPENED_MIN * (1 << doublings)).min(OPENED_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each row has a state and the next state for every trigger, as in `states.md`. `+` is the state with the name of
    /// the trigger, `d` is due, `s` stopped, `f` failed. `.` means no effect, `x` not allowed.
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
    fn every_state_and_trigger_leads_where_the_table_says() {
        let (mut moved, mut nothing, mut barred) = (0, 0, 0);
        assert_eq!(TABLE.map(|(state, _)| state), OrderState::ALL);
        for (state, row) in TABLE {
            for (cell, trigger) in row.split(' ').zip(OrderTrigger::ALL) {
                let step = state.after(trigger);
                let expected = match cell {
                    "." => OrderTransition::Nothing,
                    "x" => OrderTransition::Barred,
                    "s" => OrderTransition::To(OrderState::Stopped),
                    "d" => OrderTransition::To(OrderState::Due),
                    "f" => OrderTransition::To(OrderState::Failed),
                    _ if trigger == OrderTrigger::Ask => OrderTransition::To(OrderState::Asked),
                    _ => OrderTransition::To(OrderState::from_wire(trigger.wire()).unwrap()),
                };
                assert_eq!(step, expected, "{} by {}", state.wire(), trigger.wire());
                match step {
                    OrderTransition::To(_) => moved += 1,
                    OrderTransition::Nothing => nothing += 1,
                    OrderTransition::Barred => barred += 1,
                }
            }
            println!("{:28} {row}", state.wire());
        }
        println!("{moved} transitions, {nothing} without effect, {barred} barred");
        assert_eq!(moved + nothing + barred, 120);
    }

    #[test]
    fn only_named_transactions_count_as_having_the_money() {
        let [one, two, other] = [1, 2, 3].map(B256::with_last_byte);
        let units = |units: u64| U256::from(units);
        let asked = PayoutOrder::of([(one, units(4)), (two, units(5)), (two, units(1))]);
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
    fn the_list_of_open_states_is_complete() {
        let open: Vec<OrderState> = OrderState::ALL.into_iter().filter(|state| state.is_open()).collect();
        assert_eq!(open, OrderState::OPEN);
    }

    #[test]
    fn lookups_become_rarer_with_age_and_failures() {
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
