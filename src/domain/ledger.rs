//! What is due, what has arrived and what a payment changes, whatever it is that is paid.

use super::wire_text::wire_text;
use alloy::primitives::{B256, U256};

/// Most partial events that one request raises, so that dust cannot flood a receiver.
///
/// Payments beyond it are still recorded and credited. Source: rules C.3.
pub const PARTIAL_EVENTS_MAX: u32 = 100;

/// Units in which a request is settled: token units of the payment currency when it is paid in itself, 8-decimal
/// fiat units when it is converted on chain.
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
        /// Withdrawn; no operation reaches it.
        Cancelled = "cancelled",
    }
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
}

impl Ledger {
    /// Nothing has arrived yet.
    pub const fn new(expected: SettlementUnits) -> Self {
        Self {
            expected,
            credited: U256::ZERO,
            payment_count: 0,
            status: RequestStatus::Pending,
            tx_hash: None,
            is_listening: false,
        }
    }

    /// Whether the whole amount has arrived.
    pub fn has_been_paid(&self) -> bool {
        self.status == RequestStatus::Paid
    }

    /// What is still to be paid.
    pub fn remaining(&self) -> SettlementUnits {
        self.expected.saturating_sub(self.credited)
    }

    /// What was paid beyond the expected total, when anything was.
    pub fn excess(&self) -> Option<SettlementUnits> {
        let excess = self.credited.checked_sub(self.expected)?;
        (!excess.is_zero()).then_some(excess)
    }

    /// Adds a proven payment: the new totals and state, and what has to be told.
    ///
    /// A payment after completion is recorded and raises nothing. Source: rules S.1; interface §6.2.
    pub fn settle(&self, credited: SettlementUnits, tx_hash: B256) -> (Self, Option<Settlement>) {
        let after = Self {
            credited: self.credited.saturating_add(credited),
            payment_count: self.payment_count.saturating_add(1),
            ..self.clone()
        };
        if self.has_been_paid() {
            return (after, None);
        }
        if after.credited >= after.expected {
            let paid = Self {
                status: RequestStatus::Paid,
                tx_hash: Some(tx_hash),
                is_listening: false,
                ..after
            };
            return (paid, Some(Settlement::Confirmed));
        }
        let told = (after.payment_count <= PARTIAL_EVENTS_MAX).then_some(Settlement::Partial);
        let partly = Self {
            status: RequestStatus::PartiallyPaid,
            ..after
        };
        (partly, told)
    }

    /// The account after a payment left the chain, counted again from those that are left, the oldest first.
    ///
    /// A request that is no longer paid awaits its payment again. Source: decisions D37.
    pub fn reverse(&self, remaining: impl IntoIterator<Item = (SettlementUnits, B256)>) -> Self {
        let empty = Self {
            is_listening: self.is_listening || self.has_been_paid(),
            ..Self::new(self.expected)
        };
        remaining
            .into_iter()
            .fold(empty, |ledger, (credited, tx_hash)| ledger.settle(credited, tx_hash).0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn payments_add_up_and_completion_is_told_once(expected in 1_u64..500, payments in prop::collection::vec(1_u64..100, 1..20)) {
            let mut ledger = Ledger { is_listening: true, ..Ledger::new(U256::from(expected)) };
            let mut sum = 0;
            let mut completed_by = None;
            for (index, units) in (0_u8..).zip(&payments) {
                let was_paid = ledger.has_been_paid();
                let (after, told) = ledger.settle(U256::from(*units), B256::repeat_byte(index));
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
                    completed_by = Some(B256::repeat_byte(index));
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
            let payments: Vec<_> = payments.iter().enumerate().map(|(index, units)| (U256::from(*units), B256::from(U256::from(index)))).collect();
            let listening = Ledger { is_listening: true, ..Ledger::new(U256::from(expected)) };
            let before = payments.iter().fold(listening, |ledger, (units, tx_hash)| ledger.settle(*units, *tx_hash).0);
            let after = before.settle(U256::from(last), B256::repeat_byte(0xff)).0;
            prop_assert_eq!(after.reverse(payments), before);
        }

        #[test]
        fn whichever_payment_is_reversed_the_others_count(expected in 1_u64..300, payments in prop::collection::vec(1_u64..100, 1..12), gone in 0_usize..12) {
            let mut payments: Vec<_> = payments.iter().enumerate().map(|(index, units)| (U256::from(*units), B256::from(U256::from(index)))).collect();
            let all = payments.iter().fold(Ledger::new(U256::from(expected)), |ledger, (units, tx_hash)| ledger.settle(*units, *tx_hash).0);
            payments.remove(gone % payments.len());
            let left = payments.iter().fold(U256::ZERO, |sum, (units, _)| sum + *units);
            let is_paid = left >= all.expected;
            let after = all.reverse(payments.clone());
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
    fn dust_raises_a_bounded_number_of_events_and_still_counts() {
        let mut ledger = Ledger::new(U256::from(1_000));
        let mut told = 0;
        for _ in 0..PARTIAL_EVENTS_MAX + 50 {
            let (after, settlement) = ledger.settle(U256::from(1), B256::repeat_byte(1));
            told += u32::from(settlement == Some(Settlement::Partial));
            ledger = after;
        }
        assert_eq!(told, PARTIAL_EVENTS_MAX);
        assert_eq!(ledger.credited, U256::from(PARTIAL_EVENTS_MAX + 50));
        let (paid, settlement) = ledger.settle(U256::from(1_000), B256::repeat_byte(2));
        assert_eq!(settlement, Some(Settlement::Confirmed), "{paid:?}");
    }
}
