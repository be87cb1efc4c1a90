//! Differences between recorded payments and the payments that the chain proves.

use super::{
    address::Address,
    block_range::BlockRange,
    oddity::{OddReason, Oddity},
    payment::{Observation, Settled},
    payment_match::PaymentMatch,
    payment_record::PaymentRecord,
    request::Request,
    wire_text::wire_text,
};
use alloy::primitives::B256;
use std::collections::{BTreeMap, BTreeSet, HashSet};

wire_text! {
    /// Kind of a difference between the payments table and the chain.
    pub enum DifferenceKind {
        /// The chain has a payment of a known request that is not recorded.
        Missing = "missing",
        /// A recorded payment is not on the chain.
        Gone = "gone",
        /// A recorded payment is on the chain with other facts.
        Different = "different",
        /// The state or the amounts of a request do not match its recorded payments.
        Miscounted = "miscounted",
        /// A block could not be compared because no node currently proves it, or a row could not be compared because it
        /// cannot be read.
        Uncompared = "uncompared",
    }
}

/// Position of an event on the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct EventPosition {
    /// Height of the block.
    pub block_number: u64,
    /// Transaction.
    pub tx_hash: B256,
    /// Position of the event among all events of its transaction.
    pub position: u32,
}

/// One difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordDifference {
    /// Kind.
    pub kind: DifferenceKind,
    /// The payment; `None` for a difference that concerns only the request.
    pub place: Option<EventPosition>,
    /// Public id of the request; empty for a block.
    pub request_id: String,
    /// Description of the difference.
    pub detail: String,
    /// Why fixing it failed.
    pub unmended: Option<String>,
}

/// A difference with its fix.
#[derive(Debug)]
pub struct FoundDifference<'a> {
    /// The difference.
    pub difference: RecordDifference,
    /// The recorded payment to reverse.
    pub wrong: Option<&'a PaymentRecord>,
    /// The payment on the chain: the repair credits it, or moves the record to it.
    pub proven: Option<&'a PaymentMatch>,
}

/// Transaction of a payment, and its position among all events of the transaction.
pub type PaymentKey = (B256, u32);

/// Recorded payments and chain content of a range of blocks.
#[derive(Debug)]
pub struct ComparedBlocks<'a> {
    /// Heights of the blocks.
    pub range: BlockRange,
    /// Payments that are recorded with these blocks. Blocks that no node currently proves are left out.
    pub recorded: &'a [PaymentRecord],
    /// Payments that are recorded with the transactions of these blocks, at any height.
    pub of_transactions: &'a [PaymentRecord],
    /// Payments in the blocks.
    pub matches: &'a [PaymentMatch],
    /// Requests of the payments in the blocks.
    pub requests: &'a [Request],
    /// Public ids of requests that cannot be read: their payments are not compared.
    pub unreadable_requests: &'a BTreeSet<&'a str>,
    /// Positions of payments whose rows cannot be read.
    pub unreadable_places: &'a BTreeSet<PaymentKey>,
    /// Payments that differ from the price terms of their request and that the operator accepted.
    pub accepted: &'a HashSet<PaymentKey>,
    /// Contracts in the settings.
    pub followed: &'a HashSet<Address>,
}

/// Result of a comparison.
#[derive(Debug)]
pub struct ComparisonResult<'a> {
    /// Number of equal payments.
    pub same: usize,
    /// Differences that can be fixed, in the order of the chain.
    pub found: Vec<FoundDifference<'a>>,
    /// Entries that could not be compared.
    pub uncompared: Vec<RecordDifference>,
    /// Positions of the requests that have payments in the blocks.
    pub paid_requests: BTreeSet<usize>,
}

impl<'a> ComparedBlocks<'a> {
    /// Compares both sides.
    pub fn compare(&self) -> ComparisonResult<'a> {
        let on_chain = self.payments_on_chain();
        let mut compared_places = self.unreadable_places.clone();
        let mut result = ComparisonResult {
            same: 0,
            found: Vec::new(),
            uncompared: Vec::new(),
            paid_requests: on_chain.values().map(|proven| proven.request_row).collect(),
        };
        for payment in self.credited() {
            let proven = on_chain.get(&payment.place()).copied();
            if proven.is_some() {
                compared_places.insert(payment.place());
            } else if !self.followed.contains(&payment.proxy) {
                result.uncompared.push(not_followed(payment));
                continue;
            }
            match self.compare_payment(payment, proven) {
                Some(found) => result.found.push(found),
                None => result.same += 1,
            }
        }
        for (key, proven) in on_chain {
            if let Some(odd) = &proven.departure
                && odd.reason == OddReason::Unreadable
                && !compared_places.contains(&key)
            {
                result.uncompared.push(self.not_credited(proven, odd));
                continue;
            }
            let is_due = proven.departure.is_none() || self.accepted.contains(&key);
            if is_due && !compared_places.contains(&key) {
                result.found.push(self.missing(proven));
            }
        }
        result.found.sort_by_key(|found| found.difference.place);
        result
    }

    /// The payments in the blocks. When several requests match a transfer, the request for which it is recorded counts.
    fn payments_on_chain(&self) -> BTreeMap<PaymentKey, &'a PaymentMatch> {
        let recorded = self.recorded.iter().chain(self.of_transactions);
        let recorded: HashSet<_> = recorded.map(|payment| (payment.place(), &payment.request)).collect();
        let mut on_chain = BTreeMap::new();
        for proven in self.matches {
            let key = key(&proven.settled);
            if !on_chain.contains_key(&key) || recorded.contains(&(key, &self.requests[proven.request_row].row)) {
                on_chain.insert(key, proven);
            }
        }
        on_chain
    }

    /// Recorded payments that are not reversed and whose request can be read. They include payments of these
    /// transactions that are recorded with a block outside the range.
    fn credited(&self) -> impl Iterator<Item = &'a PaymentRecord> {
        let BlockRange { from, to } = self.range;
        let elsewhere = self.of_transactions.iter();
        let elsewhere = elsewhere.filter(move |payment| !(from..=to).contains(&payment.block_number));
        let unreadable = self.unreadable_requests;
        let counts = move |payment: &&PaymentRecord| {
            payment.reversal.is_none() && !unreadable.contains(payment.request_id.as_str())
        };
        self.recorded.iter().chain(elsewhere).filter(counts)
    }

    fn compare_payment(
        &self,
        payment: &'a PaymentRecord,
        proven: Option<&'a PaymentMatch>,
    ) -> Option<FoundDifference<'a>> {
        let differing =
            proven.map(|proven| differing_facts(payment, &proven.settled, &self.requests[proven.request_row]));
        // A payment that only moved is updated in place; any other difference is reversed first.
        let is_wrong = differing.as_deref().is_none_or(|facts| !have_moved(facts));
        let (kind, detail) = match differing {
            Some(facts) if facts.is_empty() => return None,
            Some(facts) => {
                let names: Vec<&str> = facts.iter().map(|fact| fact.name).collect();
                let detail = format!("the record and the chain differ in: {}", names.join(", "));
                (DifferenceKind::Different, detail)
            }
            None => (DifferenceKind::Gone, "the chain has no such payment".to_owned()),
        };
        Some(FoundDifference {
            difference: RecordDifference {
                kind,
                place: Some(place_of(payment)),
                request_id: payment.request_id.clone(),
                detail,
                unmended: None,
            },
            wrong: is_wrong.then_some(payment),
            proven,
        })
    }

    /// The difference for a transfer that is not credited, because the request that it pays is ambiguous.
    fn not_credited(&self, proven: &PaymentMatch, odd: &Oddity) -> RecordDifference {
        RecordDifference {
            kind: DifferenceKind::Uncompared,
            place: Some(place_on_chain(&proven.settled.observed)),
            request_id: self.requests[proven.request_row].id.to_string(),
            detail: odd.detail.clone(),
            unmended: None,
        }
    }

    fn missing(&self, proven: &'a PaymentMatch) -> FoundDifference<'a> {
        let Settled {
            observed,
            proven: transfer,
            ..
        } = &proven.settled;
        FoundDifference {
            difference: RecordDifference {
                kind: DifferenceKind::Missing,
                place: Some(place_on_chain(observed)),
                request_id: self.requests[proven.request_row].id.to_string(),
                detail: format!(
                    "a payment of {} units to {} is not recorded",
                    transfer.received_units, observed.payee
                ),
                unmended: None,
            },
            wrong: None,
            proven: Some(proven),
        }
    }
}

/// The difference for a recorded payment whose contract is not in the settings. The events of that contract were not
/// read.
fn not_followed(payment: &PaymentRecord) -> RecordDifference {
    RecordDifference {
        kind: DifferenceKind::Uncompared,
        place: Some(place_of(payment)),
        request_id: payment.request_id.clone(),
        detail: format!(
            "the payment cannot be compared, because its contract {} is not in the settings",
            payment.proxy
        ),
        unmended: None,
    }
}

fn place_of(payment: &PaymentRecord) -> EventPosition {
    EventPosition {
        block_number: payment.block_number,
        tx_hash: payment.tx_hash,
        position: payment.position,
    }
}

fn place_on_chain(observed: &Observation) -> EventPosition {
    EventPosition {
        block_number: observed.block_number,
        tx_hash: observed.tx_hash,
        position: observed.position,
    }
}

fn key(settled: &Settled) -> PaymentKey {
    (settled.observed.tx_hash, settled.observed.position)
}

/// A fact in which a recorded payment and the chain can differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ComparedFact {
    /// Name of the fact.
    name: &'static str,
    /// Whether the fact affects the amount or the receiver of the credit, and not only the place, time or payer.
    is_money: bool,
}

/// The facts in which a recorded payment differs from its proof on the chain for a request.
fn differing_facts(payment: &PaymentRecord, settled: &Settled, request: &Request) -> Vec<ComparedFact> {
    let (observed, proven) = (&settled.observed, &settled.proven);
    let money = [
        (
            "request",
            request.row == payment.request
                && request.id.as_str() == payment.request_id
                && request.origin.platform == payment.platform,
        ),
        ("proxy", observed.proxy == payment.proxy),
        ("token", observed.token == payment.token),
        ("payee", observed.payee == payment.payee),
        (
            "units",
            proven.received_units == payment.units && observed.units == payment.event_units,
        ),
        (
            "fee",
            observed.fee_units == payment.fee_units && observed.fee_address == payment.fee_address,
        ),
        ("credit", settled.credited == payment.credited),
    ];
    let place = [
        (
            "block",
            observed.block_hash == payment.block_hash
                && observed.block_number == payment.block_number
                && observed.log_index == payment.log_index,
        ),
        (
            "payer",
            proven.payer == payment.payer && proven.payer_eoa == payment.payer_eoa,
        ),
        ("time", settled.at == payment.paid_at),
    ];
    let facts = |facts: &[(&'static str, bool)], is_money| {
        let other = facts.iter().filter(|(_, is_same)| !is_same);
        other
            .map(|(name, _)| ComparedFact { name, is_money })
            .collect::<Vec<_>>()
    };
    [facts(&money, true), facts(&place, false)].concat()
}

/// Whether the chain proves the same payment for a request, but in another place after a reorganisation.
pub fn is_moved(payment: &PaymentRecord, settled: &Settled, request: &Request) -> bool {
    have_moved(&differing_facts(payment, settled, request))
}

fn have_moved(differences: &[ComparedFact]) -> bool {
    !differences.is_empty() && differences.iter().all(|fact| !fact.is_money)
}
