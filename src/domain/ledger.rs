//! The ledger of a request: amount due, amount received, and the effect of payments.

use super::{orchestrator_fees::OrchestratorFees, wire_text::wire_text};
use alloy::primitives::{B256, U256};

/// Maximum number of partial events of one request, so that dust payments cannot flood a receiver.
///
/// Payments beyond this number are still recorded and credited. Source: rules C.3.
pub const PARTIAL_EVENTS_MAX: u32 = 100;

/// Units in which a request is settled: token units of the payment currency for direct payments, 8-decimal fiat units
/// for conversions on chain or by quotes.
pub type SettlementUnits = U256;

wire_text! {
    /// State of a request. Source: rules S.1.
    pub enum RequestStatus {
        /// Nothing final has arrived.
        Pending = "pending",
        /// Less than the expected total has arrived.
        PartiallyPaid = "partially_paid",
        /// A payment is in progress through a bridge or a bank.
        Processing = "processing",
        /// The expected total has arrived.
        Paid = "paid",
        /// Execution failed.
        Failed = "failed",
        /// The payment was refunded to the payer.
        Refunded = "refunded",
        /// Cancelled by its owner. Later payments do not change the state.
        Cancelled = "cancelled",
    }
}

/// Where the money of a request finally arrives. This decides whether the ledger or the partner determines the final
/// state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PaymentEnding {
    /// In the wallet of the payee: the ledger determines the state.
    Wallet,
    /// In a bank account. The request is paid once the whole amount is paid out.
    Bank,
    /// In a bank account, and the payout is ordered from the off-ramp partner. The status of the payout determines the
    /// final state.
    BankOrdered,
}

/// Effect of a payment on its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settlement {
    /// The expected total has arrived.
    Confirmed,
    /// A part has arrived.
    Partial,
}

/// The ledger: amount due, amount received, and the resulting state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ledger {
    /// Expected total.
    pub expected: SettlementUnits,
    /// Part of the expected total that may be missing when the last payment is credited at a market rate instead of by
    /// a quote.
    pub tolerated: SettlementUnits,
    /// Credited total of final payments.
    pub credited: SettlementUnits,
    /// Fees of an orchestrator that the credited payments paid.
    pub orchestrator_fees: OrchestratorFees,
    /// Number of credited payments.
    pub payment_count: u32,
    /// State.
    pub status: RequestStatus,
    /// Transaction of the completing payment.
    pub tx_hash: Option<B256>,
    /// Whether calldata was issued and a payment is expected.
    pub is_listening: bool,
    /// Whether an event reported the request as confirmed, and no later event reversed this report.
    pub is_told_paid: bool,
    /// Number of reversals. It is part of the event key, so an event that is repeated after a reversal is a new event.
    pub reversals: u32,
    /// Where the payments end.
    pub ending: PaymentEnding,
}

/// A proven payment in the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Credit {
    /// Amount that it settles.
    pub units: SettlementUnits,
    /// Its transaction.
    pub tx_hash: B256,
    /// Whether an event reported the payment before, and no later event reversed this report.
    pub is_told: bool,
    /// Whether a quote determined the amount.
    pub is_quoted: bool,
    /// Fees of an orchestrator that the payment paid.
    pub orchestrator_fees: OrchestratorFees,
}

/// Effect of a payment that left the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReversalEffect {
    /// The ledger without it.
    pub ledger: Ledger,
    /// Whether a reversal is reported.
    pub is_told: bool,
    /// Reports to send after the reversal. Each contains the position of a remaining payment, what this payment
    /// settles, and the ledger after this payment.
    pub then: Vec<(usize, Settlement, Ledger)>,
}

impl Ledger {
    /// A ledger without payments.
    pub const fn new(expected: SettlementUnits) -> Self {
        Self {
            expected,
            tolerated: U256::ZERO,
            credited: U256::ZERO,
            orchestrator_fees: OrchestratorFees {
                payer: U256::ZERO,
                payee: U256::ZERO,
            },
            payment_count: 0,
            status: RequestStatus::Pending,
            tx_hash: None,
            is_listening: false,
            is_told_paid: false,
            reversals: 0,
            ending: PaymentEnding::Wallet,
        }
    }

    /// Whether the request is paid.
    pub fn has_been_paid(&self) -> bool {
        self.status == RequestStatus::Paid
    }

    /// Whether the whole amount has arrived, even if it is not paid out to the bank account yet.
    pub fn is_complete(&self) -> bool {
        match self.ending {
            PaymentEnding::Wallet => self.has_been_paid(),
            PaymentEnding::Bank => matches!(self.status, RequestStatus::Processing | RequestStatus::Paid),
            PaymentEnding::BankOrdered => true,
        }
    }

    /// Whether its owner cancelled it.
    pub fn is_cancelled(&self) -> bool {
        self.status == RequestStatus::Cancelled
    }

    /// Amount due; zero once cancelled.
    fn due(&self) -> SettlementUnits {
        if self.is_cancelled() { U256::ZERO } else { self.expected }
    }

    /// Remaining amount; zero for a request that counts as paid.
    pub fn remaining(&self) -> SettlementUnits {
        if self.is_complete() {
            U256::ZERO
        } else {
            self.due().saturating_sub(self.credited)
        }
    }

    /// Amount paid beyond the amount due, if any.
    pub fn excess(&self) -> Option<SettlementUnits> {
        let excess = self.credited.checked_sub(self.due())?;
        (!excess.is_zero()).then_some(excess)
    }

    /// The ledger after the owner of the request cancelled it. Cancelling it again changes nothing.
    ///
    /// Errors: the message for the caller, when a payment has arrived or is in progress. Source: rules S.1.
    pub fn cancel(&self) -> Result<Self, String> {
        match self.status {
            RequestStatus::Pending | RequestStatus::Cancelled => Ok(Self {
                status: RequestStatus::Cancelled,
                is_listening: false,
                ..self.clone()
            }),
            status => Err(format!(
                "Only a pending request can be cancelled; this one is {}",
                status.wire()
            )),
        }
    }

    /// Adds a proven payment: returns the new totals and state, and the event to send.
    ///
    /// A payment of a request that is already complete gets no event. A payment gets no second event while its first
    /// report is not reversed.
    ///
    /// A payment of a cancelled request completes nothing: it is reported as partial, so that the merchant does not
    /// deliver.
    ///
    /// For a request that is paid to a bank account, the completing payment is reported when the bank has received the
    /// money. Source: rules S.1; interface §6.2; decisions D37.
    pub fn settle(&self, payment: Credit) -> (Self, Option<Settlement>) {
        let after = Self {
            credited: self.credited.saturating_add(payment.units),
            orchestrator_fees: self.orchestrator_fees.plus(payment.orchestrator_fees),
            payment_count: self.payment_count.saturating_add(1),
            ..self.clone()
        };
        if self.is_complete() {
            return (after, None);
        }
        // Market rates change until a payment is mined, so a part may be missing. A quote fixes the settled amount.
        let tolerated = if payment.is_quoted { U256::ZERO } else { after.tolerated };
        if after.credited.saturating_add(tolerated) >= after.expected && !self.is_cancelled() {
            if self.ending != PaymentEnding::Wallet {
                let on_its_way = Self {
                    status: RequestStatus::Processing,
                    tx_hash: Some(payment.tx_hash),
                    is_listening: false,
                    ..after
                };
                return (on_its_way, None);
            }
            let paid = Self {
                status: RequestStatus::Paid,
                tx_hash: Some(payment.tx_hash),
                is_listening: false,
                is_told_paid: true,
                ..after
            };
            return (paid, (!self.is_told_paid).then_some(Settlement::Confirmed));
        }
        let is_due = !payment.is_told && after.payment_count <= PARTIAL_EVENTS_MAX;
        let told = is_due.then_some(Settlement::Partial);
        let partly = Self {
            status: if self.is_cancelled() {
                RequestStatus::Cancelled
            } else {
                RequestStatus::PartiallyPaid
            },
            ..after
        };
        (partly, told)
    }

    /// Recounts the ledger from the remaining payments, oldest first, without events.
    ///
    /// A request that is no longer paid expects a payment again. Source: decisions D37.
    pub fn recount(&self, remaining: &[Credit]) -> Self {
        let counted = remaining
            .iter()
            .fold(self.emptied(), |ledger, payment| ledger.settle(*payment).0);
        Self {
            is_told_paid: self.is_told_paid,
            ..counted
        }
    }

    /// The ledger that results from these payments, oldest first. A ledger with the same totals stays unchanged: the
    /// stored ledger may depend on the order in which old payments completed it, and that order is not stored.
    pub fn recounted(&self, payments: &[Credit]) -> Self {
        let recounted = self.recount(payments);
        let sums = |ledger: &Self| {
            (
                ledger.credited,
                ledger.payment_count,
                ledger.status,
                ledger.orchestrator_fees,
            )
        };
        if sums(&recounted) == sums(self) {
            self.clone()
        } else {
            recounted
        }
    }

    /// Removes a payment that left the chain. Returns the ledger, recounted from the remaining payments (oldest first),
    /// and the events to send.
    ///
    /// A reversal is reported when the payment itself was reported. It is also reported when the request was reported
    /// as confirmed and the remaining payments no longer pay it. If `tells_reversals` is false, no reversal is
    /// reported.
    ///
    /// Every reported reversal also reverses the confirmation of the request. If the other payments still pay the
    /// request, the payment that now completes it is confirmed again. Source: decisions D37.
    pub fn reverse(&self, was_told: bool, remaining: &[Credit], tells_reversals: bool) -> ReversalEffect {
        let counted = self.recount(remaining);
        if self.ending == PaymentEnding::BankOrdered {
            // The partner determines the state of the payout: only the reversal is reported, and nothing is confirmed
            // again.
            let is_told = tells_reversals && was_told;
            let reversals = self.reversals.saturating_add(u32::from(is_told));
            return ReversalEffect {
                ledger: Self { reversals, ..counted },
                is_told,
                then: Vec::new(),
            };
        }
        let is_undone = self.is_told_paid && !counted.has_been_paid();
        if !tells_reversals || !(was_told || is_undone) {
            return ReversalEffect {
                ledger: counted,
                is_told: false,
                then: Vec::new(),
            };
        }
        let mut ledger = Self {
            is_told_paid: false,
            reversals: self.reversals.saturating_add(1),
            ..self.emptied()
        };
        let mut then = Vec::new();
        for (index, payment) in remaining.iter().enumerate() {
            let (after, told) = ledger.settle(*payment);
            then.extend(told.map(|settlement| (index, settlement, after.clone())));
            ledger = after;
        }
        ReversalEffect {
            ledger,
            is_told: true,
            then,
        }
    }

    /// The ledger after the payout was ordered from the partner. `None` when the request is incomplete, or its payout
    /// was already ordered.
    pub fn ordered(&self) -> Option<Self> {
        let is_due = self.ending == PaymentEnding::Bank && self.status == RequestStatus::Processing;
        is_due.then(|| Self {
            ending: PaymentEnding::BankOrdered,
            ..self.clone()
        })
    }

    /// The ledger without the order, for an order that was not sent to the partner after all.
    #[must_use]
    pub fn unordered(&self) -> Self {
        Self {
            ending: PaymentEnding::Bank,
            ..self.clone()
        }
    }

    /// The ledger after the bank received the payout, and whether the payout is reported. It is reported only once,
    /// even if payments are reversed later.
    pub fn paid_out(&self) -> (Self, bool) {
        let paid = Self {
            status: RequestStatus::Paid,
            is_told_paid: true,
            ..self.clone()
        };
        (paid, !self.is_told_paid)
    }

    /// The ledger after the partner gave up the payout, or the bank returned it.
    #[must_use]
    pub fn not_paid_out(&self) -> Self {
        Self {
            status: RequestStatus::Failed,
            ..self.clone()
        }
    }

    /// The ledger after the operator settled the received amount in another way. Nothing is due any longer, and later
    /// payments are credited.
    ///
    /// Errors: the request has no payments, so its owner can cancel it.
    pub fn close(&self) -> Result<Self, &'static str> {
        match self.status {
            RequestStatus::Paid | RequestStatus::Failed | RequestStatus::Refunded | RequestStatus::Cancelled => {
                Ok(self.clone())
            }
            _ if self.credited.is_zero() && self.ending != PaymentEnding::BankOrdered => {
                Err("the request has no payments: its owner can cancel it")
            }
            RequestStatus::Pending | RequestStatus::PartiallyPaid | RequestStatus::Processing => Ok(Self {
                ending: PaymentEnding::BankOrdered,
                is_listening: false,
                ..self.not_paid_out()
            }),
        }
    }

    /// The ledger without payments, as the start of a recount. The final state of an ordered payout is kept.
    fn emptied(&self) -> Self {
        if self.ending == PaymentEnding::BankOrdered {
            return Self {
                credited: U256::ZERO,
                orchestrator_fees: OrchestratorFees::default(),
                payment_count: 0,
                ..self.clone()
            };
        }
        Self {
            is_listening: self.is_listening || self.is_complete(),
            is_told_paid: self.is_told_paid,
            reversals: self.reversals,
            status: if self.is_cancelled() {
                RequestStatus::Cancelled
            } else {
                RequestStatus::Pending
            },
            tolerated: self.tolerated,
            ending: self.ending,
            ..Self::new(self.expected)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn credit(units: u64, number: usize) -> Credit {
        Credit {
            units: U256::from(units),
            tx_hash: B256::from(U256::from(number)),
            is_told: false,
            is_quoted: false,
            orchestrator_fees: OrchestratorFees::default(),
        }
    }

    fn credits(payments: &[u64]) -> Vec<Credit> {
        let numbered = payments.iter().enumerate();
        numbered.map(|(number, units)| credit(*units, number)).collect()
    }

    /// A receiver of all events. It tracks the payments that were reported and not reversed, and whether the request is
    /// confirmed.
    #[derive(Default)]
    struct Listener {
        told: BTreeMap<usize, Settlement>,
        is_confirmed: bool,
    }

    impl Listener {
        fn hear(&mut self, payment: usize, settlement: Settlement) {
            if settlement == Settlement::Confirmed {
                assert!(!self.is_confirmed, "a confirmation is not repeated before its reversal");
                self.is_confirmed = true;
            } else {
                assert!(
                    !self.told.contains_key(&payment),
                    "a part is not reported twice before its reversal"
                );
            }
            self.told.insert(payment, settlement);
        }
    }

    proptest! {
        /// Payments arrive, leave the chain and return in any order, and the owner may cancel in between. The
        /// receiver's state always matches the ledger.
        #[test]
        fn reported_payments_are_reversed_once_and_reported_again_once(
            expected in 1_u64..30,
            payments in prop::collection::vec(1_u64..12, 1..8),
            moves in prop::collection::vec(0_usize..9, 1..60),
            tells_reversals in any::<bool>(),
        ) {
            const CANCEL: usize = 8;
            let mut ledger = Ledger::new(U256::from(expected));
            let mut listener = Listener::default();
            let mut is_told = vec![false; payments.len()];
            let mut present: Vec<usize> = Vec::new();
            let of = |number: usize, is_told: &[bool]| Credit { is_told: is_told[number], ..credit(payments[number], number) };
            for number in moves.into_iter().filter(|number| *number < payments.len() || *number == CANCEL) {
                if number == CANCEL {
                    let is_possible = matches!(ledger.status, RequestStatus::Pending | RequestStatus::Cancelled);
                    match ledger.cancel() {
                        Ok(cancelled) => {
                            prop_assert!(is_possible);
                            prop_assert_eq!(cancelled.credited, ledger.credited);
                            ledger = cancelled;
                        }
                        Err(sentence) => prop_assert!(!is_possible && sentence.contains(ledger.status.wire())),
                    }
                    continue;
                }
                let was_cancelled = ledger.is_cancelled();
                if let Some(place) = present.iter().position(|one| *one == number) {
                    present.remove(place);
                    let left: Vec<Credit> = present.iter().map(|one| of(*one, &is_told)).collect();
                    let reversed = ledger.reverse(is_told[number], &left, tells_reversals);
                    if reversed.is_told {
                        prop_assert!(tells_reversals);
                        prop_assert!(is_told[number] || listener.is_confirmed, "an unreported payment is not reversed");
                        prop_assert_eq!(reversed.ledger.reversals, ledger.reversals + 1);
                        is_told[number] = false;
                        listener.told.remove(&number);
                        listener.is_confirmed = false;
                    } else {
                        prop_assert!(!tells_reversals || !is_told[number], "a reported payment is reversed");
                        prop_assert_eq!(reversed.ledger.reversals, ledger.reversals);
                    }
                    for (index, settlement, _) in &reversed.then {
                        is_told[present[*index]] = true;
                        listener.hear(present[*index], *settlement);
                    }
                    ledger = reversed.ledger;
                } else {
                    let (after, told) = ledger.settle(of(number, &is_told));
                    if let Some(settlement) = told {
                        listener.hear(number, settlement);
                        is_told[number] = true;
                    }
                    present.push(number);
                    ledger = after;
                }
                let sum: u64 = present.iter().map(|one| payments[*one]).sum();
                prop_assert_eq!(ledger.credited, U256::from(sum));
                prop_assert_eq!(ledger.is_cancelled(), was_cancelled, "a cancelled request stays cancelled");
                prop_assert_eq!(ledger.has_been_paid(), sum >= expected && !was_cancelled);
                prop_assert_eq!(ledger.is_told_paid, listener.is_confirmed);
                if was_cancelled {
                    prop_assert_eq!(ledger.excess(), (sum > 0).then_some(U256::from(sum)), "the whole sum is excess");
                    prop_assert!(ledger.remaining().is_zero() && !ledger.is_listening);
                }
                if tells_reversals {
                    prop_assert_eq!(listener.is_confirmed, ledger.has_been_paid(), "it knows the state");
                } else {
                    prop_assert!(listener.is_confirmed || !ledger.has_been_paid());
                }
                if tells_reversals && !ledger.has_been_paid() {
                    for one in &present {
                        prop_assert!(is_told[*one], "each part is reported");
                    }
                }
            }
        }
    }

    proptest! {
        #[test]
        fn payments_add_up_and_completion_is_reported_once(expected in 1_u64..500, payments in prop::collection::vec(1_u64..100, 1..20)) {
            let mut ledger = Ledger { is_listening: true, ..Ledger::new(U256::from(expected)) };
            let mut sum = 0;
            let mut completed_by = None;
            for (index, units) in (0_u8..).zip(&payments) {
                let was_paid = ledger.has_been_paid();
                let (after, told) = ledger.settle(credit(*units, usize::from(index)));
                sum += units;
                let is_paid = sum >= expected;
                prop_assert_eq!(after.credited, U256::from(sum));
                prop_assert_eq!(after.has_been_paid(), is_paid);
                prop_assert_eq!(after.is_listening, !is_paid);
                prop_assert_eq!(after.remaining(), U256::from(expected.saturating_sub(sum)));
                prop_assert_eq!(after.excess(), sum.checked_sub(expected).filter(|more| *more > 0).map(U256::from));
                prop_assert_eq!(told, match (was_paid, is_paid) {
                    (true, _) => None,
                    (false, true) => Some(Settlement::Confirmed),
                    (false, false) => Some(Settlement::Partial),
                });
                if is_paid && !was_paid {
                    completed_by = Some(B256::from(U256::from(index)));
                }
                prop_assert_eq!(&after.tx_hash, &completed_by);
                ledger = after;
            }
            prop_assert_eq!(ledger.payment_count as usize, payments.len());
        }
    }

    proptest! {
        #[test]
        fn settling_and_reversing_restores_the_ledger(expected in 1_u64..300, payments in prop::collection::vec(1_u64..100, 0..12), last in 1_u64..400) {
            let payments = credits(&payments);
            let listening = Ledger { is_listening: true, ..Ledger::new(U256::from(expected)) };
            let before = payments.iter().fold(listening, |ledger, payment| ledger.settle(*payment).0);
            let after = before.settle(credit(last, 99)).0;
            prop_assert_eq!(after.recount(&payments), Ledger { is_told_paid: after.is_told_paid, ..before });
        }

        #[test]
        fn reversing_one_payment_keeps_the_others(expected in 1_u64..300, payments in prop::collection::vec(1_u64..100, 1..12), gone in 0_usize..12) {
            let mut payments = credits(&payments);
            let all = payments.iter().fold(Ledger::new(U256::from(expected)), |ledger, payment| ledger.settle(*payment).0);
            payments.remove(gone % payments.len());
            let left = payments.iter().fold(U256::ZERO, |sum, payment| sum + payment.units);
            let is_paid = left >= all.expected;
            let after = all.reverse(true, &payments, true).ledger;
            prop_assert_eq!((after.credited, after.payment_count as usize), (left, payments.len()));
            prop_assert_eq!(after.status, match (is_paid, payments.is_empty()) {
                (true, _) => RequestStatus::Paid,
                (false, true) => RequestStatus::Pending,
                (false, false) => RequestStatus::PartiallyPaid,
            });
            prop_assert_eq!(after.tx_hash.is_some(), is_paid);
            prop_assert_eq!(after.is_listening, all.has_been_paid() && !is_paid);
        }
    }

    #[test]
    fn payments_to_a_cancelled_request_are_reported_without_completing_it() {
        let cancelled = Ledger::new(U256::from(10)).cancel().unwrap();
        assert_eq!(cancelled.cancel().unwrap(), cancelled, "again");
        let (after, told) = cancelled.settle(credit(15, 1));
        assert_eq!(
            (after.status, told),
            (RequestStatus::Cancelled, Some(Settlement::Partial))
        );
        assert_eq!((after.excess(), after.tx_hash), (Some(U256::from(15)), None));
        assert_eq!(after.recount(&[credit(15, 1)]), after);
        assert_eq!(after.recount(&[]), cancelled);
        let partly = Ledger::new(U256::from(10)).settle(credit(4, 1)).0;
        assert_eq!(
            partly.cancel().unwrap_err(),
            "Only a pending request can be cancelled; this one is partially_paid"
        );
    }

    proptest! {
        #[test]
        fn the_final_state_does_not_depend_on_payment_order(
            expected in 1_u64..300,
            tolerated in 0_u64..20,
            payments in prop::collection::vec(1_u64..100, 1..12).prop_shuffle(),
        ) {
            let before = Ledger { tolerated: U256::from(tolerated), ..Ledger::new(U256::from(expected)) };
            let state = |payments: &[u64]| {
                let after = credits(payments).into_iter().fold(before.clone(), |ledger, payment| ledger.settle(payment).0);
                (after.credited, after.payment_count, after.status, after.excess(), after.remaining())
            };
            let mut sorted = payments.clone();
            sorted.sort_unstable();
            prop_assert_eq!(state(&payments), state(&sorted));
            let sum: u64 = payments.iter().sum();
            prop_assert_eq!(state(&payments).2 == RequestStatus::Paid, sum + tolerated >= expected);
        }
    }

    #[test]
    fn a_request_is_paid_up_to_the_tolerated_shortfall() {
        let ledger = Ledger {
            tolerated: U256::from(5),
            ..Ledger::new(U256::from(1_000))
        };
        for (parts, is_paid) in [
            (&[995][..], true),
            (&[994], false),
            (&[994, 1], true),
            (&[500, 494], false),
            (&[1_000], true),
        ] {
            let after = credits(parts)
                .into_iter()
                .fold(ledger.clone(), |ledger, payment| ledger.settle(payment).0);
            assert_eq!(after.has_been_paid(), is_paid, "{parts:?}");
            assert_eq!(after.remaining().is_zero(), is_paid, "{parts:?}");
            assert_eq!(after.recount(&credits(parts)).status, after.status);
        }
    }

    #[test]
    fn dust_raises_a_bounded_number_of_events_but_still_counts() {
        let mut ledger = Ledger::new(U256::from(1_000));
        let mut told = 0;
        for _ in 0..PARTIAL_EVENTS_MAX + 50 {
            let (after, settlement) = ledger.settle(credit(1, 1));
            told += u32::from(settlement == Some(Settlement::Partial));
            ledger = after;
        }
        assert_eq!(told, PARTIAL_EVENTS_MAX);
        assert_eq!(ledger.credited, U256::from(PARTIAL_EVENTS_MAX + 50));
        let (paid, settlement) = ledger.settle(credit(1_000, 2));
        assert_eq!(settlement, Some(Settlement::Confirmed), "{paid:?}");
    }
}
