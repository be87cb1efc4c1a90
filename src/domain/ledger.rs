//! What is due, what has arrived and what a payment changes, whatever it is that is paid.

use super::wire_text::wire_text;
use alloy::primitives::{B256, U256};

/// Most partial events that one request raises, so that dust cannot flood a receiver.
///
/// Payments beyond it are still recorded and credited. Source: rules C.3.
pub const PARTIAL_EVENTS_MAX: u32 = 100;

/// Units in which a request is settled: token units of the payment currency when it is paid in itself, 8-decimal
/// fiat units when it is converted, on chain or by quotes.
pub type SettlementUnits = U256;

wire_text! {
    /// State of a request. Source: rules S.1.
    pub enum RequestStatus {
        /// Nothing final has arrived.
        Pending = "pending",
        /// Less than the expected total has arrived.
        PartiallyPaid = "partially_paid",
        /// Money is on its way through a bridge or a bank.
        Processing = "processing",
        /// The expected total has arrived.
        Paid = "paid",
        /// Execution failed.
        Failed = "failed",
        /// Money went back to the payer.
        Refunded = "refunded",
        /// Withdrawn by its owner. It stays so, whatever still arrives.
        Cancelled = "cancelled",
    }
}

/// Where the money of a request ends, and whether that is still ours to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// In the wallet of the payee.
    Wallet,
    /// In a bank account: the whole amount has to be paid out.
    Bank,
    /// In a bank account, and the partner who pays it out was asked: its word says how the request ends.
    BankOrdered,
}

/// What a payment means for its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settlement {
    /// The expected total has arrived.
    Confirmed,
    /// A part has arrived.
    Partial,
}

/// The account of what is paid: what is due, what has arrived, and the state that follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ledger {
    /// Expected total.
    pub expected: SettlementUnits,
    /// How much of it may be missing when a payment at the rate of its time completes it.
    pub tolerated: SettlementUnits,
    /// Credited total of final payments.
    pub credited: SettlementUnits,
    /// Number of credited payments.
    pub payment_count: u32,
    /// State.
    pub status: RequestStatus,
    /// Transaction of the payment that completed it.
    pub tx_hash: Option<B256>,
    /// Whether calldata was issued and the payment is awaited.
    pub is_listening: bool,
    /// Whether the request was told as confirmed, and that was not taken back.
    pub is_told_paid: bool,
    /// How often something was taken back: what is told again after it is another fact.
    pub reversals: u32,
    /// Where the money ends.
    pub ending: Ending,
}

/// A proven payment as the ledger counts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Credit {
    /// How much it settles.
    pub units: SettlementUnits,
    /// Its transaction.
    pub tx_hash: B256,
    /// Whether it was told before, and that was not taken back.
    pub is_told: bool,
    /// Whether it settles what a quote promised.
    pub is_quoted: bool,
}

/// What follows when a payment left the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reversed {
    /// The account without it.
    pub ledger: Ledger,
    /// Whether it is taken back from those who were told.
    pub is_told: bool,
    /// What is told after that: which of the remaining payments, as what, and the account with it.
    pub then: Vec<(usize, Settlement, Ledger)>,
}

impl Ledger {
    /// Nothing has arrived yet.
    pub const fn new(expected: SettlementUnits) -> Self {
        Self {
            expected,
            tolerated: U256::ZERO,
            credited: U256::ZERO,
            payment_count: 0,
            status: RequestStatus::Pending,
            tx_hash: None,
            is_listening: false,
            is_told_paid: false,
            reversals: 0,
            ending: Ending::Wallet,
        }
    }

    /// Whether the whole amount has arrived.
    pub fn has_been_paid(&self) -> bool {
        self.status == RequestStatus::Paid
    }

    /// Whether the whole amount has arrived, wherever it goes from there.
    pub fn is_complete(&self) -> bool {
        match self.ending {
            Ending::Wallet => self.has_been_paid(),
            Ending::Bank => matches!(self.status, RequestStatus::Processing | RequestStatus::Paid),
            Ending::BankOrdered => true,
        }
    }

    /// Whether its owner withdrew it.
    pub fn is_cancelled(&self) -> bool {
        self.status == RequestStatus::Cancelled
    }

    /// What is asked for: nothing any more, once it is cancelled.
    fn due(&self) -> SettlementUnits {
        match self.is_cancelled() {
            true => U256::ZERO,
            false => self.expected,
        }
    }

    /// What is still to be paid; nothing of a request that counts as paid.
    pub fn remaining(&self) -> SettlementUnits {
        match self.is_complete() {
            true => U256::ZERO,
            false => self.due().saturating_sub(self.credited),
        }
    }

    /// What was paid beyond what is asked for, when anything was.
    pub fn excess(&self) -> Option<SettlementUnits> {
        let excess = self.credited.checked_sub(self.due())?;
        (!excess.is_zero()).then_some(excess)
    }

    /// The account once its owner withdrew what it asks for; again, it stays as it is.
    ///
    /// Errors: the sentence for the caller, when money has arrived or is on its way. Source: rules S.1.
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

    /// Adds a proven payment: the new totals and state, and what has to be told.
    ///
    /// A payment after completion is recorded and raises nothing, and what was told and not taken back is not told again.
    /// A payment of a cancelled request completes nothing: it is told as a part, so that nobody delivers for it. One that
    /// completes what a bank account gets is told when the money is there.
    /// Source: rules S.1; interface §6.2; decisions D37.
    pub fn settle(&self, payment: Credit) -> (Self, Option<Settlement>) {
        let after = Self {
            credited: self.credited.saturating_add(payment.units),
            payment_count: self.payment_count.saturating_add(1),
            ..self.clone()
        };
        if self.is_complete() {
            return (after, None);
        }
        // Rates move until a payment is mined; a quote says exactly what it settles.
        let tolerated = match payment.is_quoted {
            true => U256::ZERO,
            false => after.tolerated,
        };
        if after.credited.saturating_add(tolerated) >= after.expected && !self.is_cancelled() {
            if self.ending != Ending::Wallet {
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
            status: match self.is_cancelled() {
                true => RequestStatus::Cancelled,
                false => RequestStatus::PartiallyPaid,
            },
            ..after
        };
        (partly, told)
    }

    /// The account counted again from the payments that are left, the oldest first, without a word to anybody.
    ///
    /// A request that is no longer paid awaits its payment again. Source: decisions D37.
    pub fn recount(&self, remaining: &[Credit]) -> Self {
        let counted = remaining
            .iter()
            .fold(self.emptied(), |ledger, payment| ledger.settle(*payment).0);
        Self {
            is_told_paid: self.is_told_paid,
            ..counted
        }
    }

    /// The account as these payments make it, the oldest first. One that they make as it is stays as it is: the order in which
    /// old payments completed it is not kept.
    pub fn recounted(&self, payments: &[Credit]) -> Self {
        let recounted = self.recount(payments);
        let sums = |ledger: &Self| (ledger.credited, ledger.payment_count, ledger.status);
        if sums(&recounted) == sums(self) {
            self.clone()
        } else {
            recounted
        }
    }

    /// The account after a payment left the chain, counted again from those that are left, the oldest first, and what
    /// has to be told.
    ///
    /// It is taken back when it was told, or when a request that was told as confirmed is no longer paid without it; not
    /// at all when `tells_reversals` is off. Taking back anything takes the confirmation back too: when the others still
    /// pay the request, the one that completes it now is confirmed anew. Source: decisions D37.
    pub fn reverse(&self, was_told: bool, remaining: &[Credit], tells_reversals: bool) -> Reversed {
        let counted = self.recount(remaining);
        if self.ending == Ending::BankOrdered {
            // What the bank account gets is the partner's to say; that the payment left is told, and nothing anew.
            let is_told = tells_reversals && was_told;
            let reversals = self.reversals.saturating_add(u32::from(is_told));
            return Reversed {
                ledger: Self { reversals, ..counted },
                is_told,
                then: Vec::new(),
            };
        }
        let is_undone = self.is_told_paid && !counted.has_been_paid();
        if !tells_reversals || !(was_told || is_undone) {
            return Reversed {
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
        Reversed {
            ledger,
            is_told: true,
            then,
        }
    }

    /// The account once the partner was asked to pay out what has arrived. `None` when it is not complete, or was ordered
    /// before.
    pub fn ordered(&self) -> Option<Self> {
        let is_due = self.ending == Ending::Bank && self.status == RequestStatus::Processing;
        is_due.then(|| Self {
            ending: Ending::BankOrdered,
            ..self.clone()
        })
    }

    /// The account before the partner was asked, where nothing was sent to it after all.
    #[must_use]
    pub fn unordered(&self) -> Self {
        Self {
            ending: Ending::Bank,
            ..self.clone()
        }
    }

    /// The account once the bank has the money, and whether that is told: once, whatever was taken back since.
    pub fn paid_out(&self) -> (Self, bool) {
        let paid = Self {
            status: RequestStatus::Paid,
            is_told_paid: true,
            ..self.clone()
        };
        (paid, !self.is_told_paid)
    }

    /// The account once the partner gave up, or the bank sent the money back.
    #[must_use]
    pub fn not_paid_out(&self) -> Self {
        Self {
            status: RequestStatus::Failed,
            ..self.clone()
        }
    }

    /// The account once the operator settled by other ways what has arrived: it asks for nothing any more, and what still
    /// arrives is credited.
    ///
    /// Errors: nothing has arrived, so its owner can cancel it.
    pub fn close(&self) -> Result<Self, &'static str> {
        match self.status {
            RequestStatus::Paid | RequestStatus::Failed | RequestStatus::Refunded | RequestStatus::Cancelled => {
                Ok(self.clone())
            }
            _ if self.credited.is_zero() && self.ending != Ending::BankOrdered => {
                Err("nothing has arrived: its owner can cancel it")
            }
            RequestStatus::Pending | RequestStatus::PartiallyPaid | RequestStatus::Processing => Ok(Self {
                ending: Ending::BankOrdered,
                is_listening: false,
                ..self.not_paid_out()
            }),
        }
    }

    /// The account before any payment, to count them again. How a payout ends is not counted.
    fn emptied(&self) -> Self {
        if self.ending == Ending::BankOrdered {
            return Self {
                credited: U256::ZERO,
                payment_count: 0,
                ..self.clone()
            };
        }
        Self {
            is_listening: self.is_listening || self.is_complete(),
            is_told_paid: self.is_told_paid,
            reversals: self.reversals,
            status: match self.is_cancelled() {
                true => RequestStatus::Cancelled,
                false => RequestStatus::Pending,
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
        }
    }

    fn credits(payments: &[u64]) -> Vec<Credit> {
        let numbered = payments.iter().enumerate();
        numbered.map(|(number, units)| credit(*units, number)).collect()
    }

    /// Whoever believes each event: how many payments stand as told, and whether the request is confirmed.
    #[derive(Default)]
    struct Listener {
        told: BTreeMap<usize, Settlement>,
        is_confirmed: bool,
    }

    impl Listener {
        fn hear(&mut self, payment: usize, settlement: Settlement) {
            if settlement == Settlement::Confirmed {
                assert!(!self.is_confirmed, "a confirmation that stands is not repeated");
                self.is_confirmed = true;
            } else {
                assert!(!self.told.contains_key(&payment), "a part that stands is not repeated");
            }
            self.told.insert(payment, settlement);
        }
    }

    proptest! {
        /// Payments arrive, leave and return in any order, and the owner may cancel in between; nobody is ever left with a
        /// wrong belief.
        #[test]
        fn what_was_told_is_taken_back_once_and_told_again_once(
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
                        prop_assert!(is_told[number] || listener.is_confirmed, "what was never told is not taken back");
                        prop_assert_eq!(reversed.ledger.reversals, ledger.reversals + 1);
                        is_told[number] = false;
                        listener.told.remove(&number);
                        listener.is_confirmed = false;
                    } else {
                        prop_assert!(!tells_reversals || !is_told[number], "what was told is taken back");
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
                prop_assert_eq!(ledger.is_cancelled(), was_cancelled, "what is cancelled stays so");
                prop_assert_eq!(ledger.has_been_paid(), sum >= expected && !was_cancelled);
                prop_assert_eq!(ledger.is_told_paid, listener.is_confirmed);
                if was_cancelled {
                    prop_assert_eq!(ledger.excess(), (sum > 0).then_some(U256::from(sum)), "all of it is too much");
                    prop_assert!(ledger.remaining().is_zero() && !ledger.is_listening);
                }
                if tells_reversals {
                    prop_assert_eq!(listener.is_confirmed, ledger.has_been_paid(), "who hears everything knows");
                } else {
                    prop_assert!(listener.is_confirmed || !ledger.has_been_paid());
                }
                if tells_reversals && !ledger.has_been_paid() {
                    for one in &present {
                        prop_assert!(is_told[*one], "each part is told");
                    }
                }
            }
        }
    }

    proptest! {
        #[test]
        fn payments_add_up_and_completion_is_told_once(expected in 1_u64..500, payments in prop::collection::vec(1_u64..100, 1..20)) {
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
        fn settling_and_reversing_leaves_everything_as_before(expected in 1_u64..300, payments in prop::collection::vec(1_u64..100, 0..12), last in 1_u64..400) {
            let payments = credits(&payments);
            let listening = Ledger { is_listening: true, ..Ledger::new(U256::from(expected)) };
            let before = payments.iter().fold(listening, |ledger, payment| ledger.settle(*payment).0);
            let after = before.settle(credit(last, 99)).0;
            prop_assert_eq!(after.recount(&payments), Ledger { is_told_paid: after.is_told_paid, ..before });
        }

        #[test]
        fn whichever_payment_is_reversed_the_others_count(expected in 1_u64..300, payments in prop::collection::vec(1_u64..100, 1..12), gone in 0_usize..12) {
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
    fn money_for_a_cancelled_request_is_told_and_completes_nothing() {
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
        fn any_order_of_payments_gives_one_final_state(
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
    fn what_is_tolerated_may_be_missing_and_not_a_unit_more() {
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
    fn dust_raises_a_bounded_number_of_events_and_still_counts() {
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
