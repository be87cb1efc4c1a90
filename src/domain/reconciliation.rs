//! How recorded payments and the payments that the chain proves differ.

use super::{
    address::Address,
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
    /// How the payments table and the chain differ.
    pub enum DifferenceKind {
        /// The chain holds a payment of a known request that is not recorded.
        Missing = "missing",
        /// A recorded payment is not on the chain.
        Gone = "gone",
        /// A recorded payment is on the chain with other facts.
        Different = "different",
        /// The state or the amounts of a request are not what its recorded payments make them.
        Miscounted = "miscounted",
        /// A block that no node proves now, or a row that cannot be read.
        Uncompared = "uncompared",
    }
}

/// Where an event stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Height of the block.
    pub block_number: u64,
    /// Transaction.
    pub tx_hash: B256,
    /// Position among all events of the transaction.
    pub position: u32,
}

/// One difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// How they differ.
    pub kind: DifferenceKind,
    /// The payment; `None` when it is about a request alone.
    pub place: Option<Place>,
    /// Public id of the request; empty of a block.
    pub request_id: String,
    /// What differs, in words.
    pub detail: String,
    /// Why it was not mended although it was to be.
    pub unmended: Option<String>,
}

/// A difference, and what mends it.
#[derive(Debug)]
pub struct FoundDifference<'a> {
    /// The difference.
    pub difference: Difference,
    /// The recorded payment that is taken back.
    pub wrong: Option<&'a PaymentRecord>,
    /// What the chain shows, to be credited or put where it is.
    pub proven: Option<&'a PaymentMatch>,
}

/// Transaction of a payment, and its position among all events of that.
pub type PaymentKey = (B256, u32);

/// What is recorded about some blocks, and what they hold.
#[derive(Debug)]
pub struct ComparedBlocks<'a> {
    /// First and last height.
    pub range: (u64, u64),
    /// Payments that are recorded with these blocks, but for blocks that no node proves now.
    pub recorded: &'a [PaymentRecord],
    /// Payments that are recorded with the transactions of these blocks, whatever their height.
    pub of_transactions: &'a [PaymentRecord],
    /// Payments that the blocks hold.
    pub matches: &'a [PaymentMatch],
    /// Their requests.
    pub requests: &'a [Request],
    /// Public ids of requests that cannot be read: their payments are not compared.
    pub unreadable_requests: &'a BTreeSet<&'a str>,
    /// Where payments stand whose rows cannot be read.
    pub unreadable_places: &'a BTreeSet<PaymentKey>,
    /// Payments that depart from what was handed out, and that the operator accepted.
    pub accepted: &'a HashSet<PaymentKey>,
    /// Contracts that the settings name.
    pub followed: &'a HashSet<Address>,
}

/// What a comparison of blocks found.
#[derive(Debug)]
pub struct ComparisonResult<'a> {
    /// Payments that are the same on both sides.
    pub same: usize,
    /// What can be mended, in the order of the chain.
    pub found: Vec<FoundDifference<'a>>,
    /// What could not be compared.
    pub uncompared: Vec<Difference>,
    /// Positions of the requests whose payments the blocks hold.
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

    /// The payments that the blocks hold. Of several requests that fit a transfer, that one counts for which it is recorded.
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

    /// Recorded payments that count. One that is recorded with another block would be missed by its height.
    fn credited(&self) -> impl Iterator<Item = &'a PaymentRecord> {
        let (from, to) = self.range;
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
        // The same money elsewhere is put there when it is read again; everything else is taken back first.
        let is_wrong = differing.as_deref().is_none_or(|facts| !have_moved(facts));
        let (kind, detail) = match differing {
            Some(facts) if facts.is_empty() => return None,
            Some(facts) => {
                let names: Vec<&str> = facts.iter().map(|fact| fact.name).collect();
                let detail = format!("recorded with another {}", names.join(", "));
                (DifferenceKind::Different, detail)
            }
            None => (DifferenceKind::Gone, "the chain holds no such payment".to_owned()),
        };
        Some(FoundDifference {
            difference: Difference {
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

    /// A transfer that is credited to nobody, since nothing says which request it pays.
    fn not_credited(&self, proven: &PaymentMatch, odd: &Oddity) -> Difference {
        Difference {
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
            difference: Difference {
                kind: DifferenceKind::Missing,
                place: Some(place_on_chain(observed)),
                request_id: self.requests[proven.request_row].id.to_string(),
                detail: format!(
                    "{} units to {} are not recorded",
                    transfer.received_units, observed.payee
                ),
                unmended: None,
            },
            wrong: None,
            proven: Some(proven),
        }
    }
}

/// A recorded payment whose contract the settings do not name, so that nothing was read of it.
fn not_followed(payment: &PaymentRecord) -> Difference {
    Difference {
        kind: DifferenceKind::Uncompared,
        place: Some(place_of(payment)),
        request_id: payment.request_id.clone(),
        detail: format!("its contract {} is none of those that the settings name", payment.proxy),
        unmended: None,
    }
}

fn place_of(payment: &PaymentRecord) -> Place {
    Place {
        block_number: payment.block_number,
        tx_hash: payment.tx_hash,
        position: payment.position,
    }
}

fn place_on_chain(observed: &Observation) -> Place {
    Place {
        block_number: observed.block_number,
        tx_hash: observed.tx_hash,
        position: observed.position,
    }
}

fn key(settled: &Settled) -> PaymentKey {
    (settled.observed.tx_hash, settled.observed.position)
}

/// Something that a recorded payment and the chain may tell differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fact {
    /// In words.
    name: &'static str,
    /// Whether it says how much is credited and to whom, and not only where and when it was paid and by whom.
    is_money: bool,
}

/// In which facts a recorded payment differs from what the chain proves about it for a request.
fn differing_facts(payment: &PaymentRecord, settled: &Settled, request: &Request) -> Vec<Fact> {
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
        other.map(|(name, _)| Fact { name, is_money }).collect::<Vec<_>>()
    };
    [facts(&money, true), facts(&place, false)].concat()
}

/// Whether the chain proves the same money for a request as is recorded, and somewhere else: a reorganisation put it there.
pub fn is_moved(payment: &PaymentRecord, settled: &Settled, request: &Request) -> bool {
    have_moved(&differing_facts(payment, settled, request))
}

fn have_moved(differences: &[Fact]) -> bool {
    !differences.is_empty() && differences.iter().all(|fact| !fact.is_money)
}
