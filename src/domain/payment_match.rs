//! Finds the payments of known requests in blocks that were proven, and what is odd about them.

use super::{
    address::Address,
    conversion_call::ConversionCalls,
    currency::{Catalogue, ContractKind},
    fee_legs::FeeLegs,
    handed_out::{Comparison, Departure, HandedOut, compare},
    ids::RequestRowId,
    network::Network,
    oddity::{Concerned, OddReason, Oddity},
    off_ramp::Deposit,
    payment::{Movements, Observation, Settled, SettledBlock, TxProof, prove},
    request::{Request, terms::Exchange},
};
use alloy::primitives::{B256, U256};
use chrono::{DateTime, Utc};
use std::collections::{BTreeSet, HashMap};

/// A payment of a known request, proven.
#[derive(Debug, Clone)]
pub struct PaymentMatch {
    /// The payment.
    pub settled: Settled,
    /// Position of its request among the known ones.
    pub request_row: usize,
    /// In what it departs from what was handed out, so that it is not credited unless the operator accepts it.
    pub departure: Option<Oddity>,
}

/// The requests that payments may be of.
#[derive(Debug, Clone, Copy)]
pub struct KnownRequests<'a> {
    /// Readable ones.
    pub requests: &'a [Request],
    /// What was handed out for each of them beyond its price terms.
    pub handed_out: &'a [Vec<HandedOut>],
    /// The addresses that were handed out for those that bank accounts get.
    pub deposits: &'a HashMap<RequestRowId, Vec<Deposit>>,
    /// Why the rows of others cannot be read, by the topics that their payments show.
    pub unreadable: &'a [(B256, String)],
}

/// What blocks hold for known requests.
#[derive(Debug, Default)]
pub struct BlockFindings {
    /// Payments, in the order of the chain.
    pub matches: Vec<PaymentMatch>,
    /// Blocks that hold a payment.
    pub paid_in: BTreeSet<u64>,
    /// What is odd about others.
    pub odd: Vec<Oddity>,
}

/// Takes from proven blocks of a network what concerns known requests.
pub fn find_payments<'a>(
    network: Network,
    catalogue: &Catalogue,
    blocks: impl Iterator<Item = &'a SettledBlock>,
    known: KnownRequests<'_>,
) -> BlockFindings {
    // Of two entries with one address the first counts.
    let contracts = catalogue.contracts(network).iter().rev();
    let mut by_topic: HashMap<B256, Vec<usize>> = HashMap::new();
    for (row, request) in known.requests.iter().enumerate() {
        by_topic.entry(request.reference.topic()).or_default().push(row);
    }
    let search = Search {
        network,
        catalogue,
        kinds: contracts.map(|known| (known.address, known.kind)).collect(),
        known,
        by_topic,
    };
    let mut findings = BlockFindings::default();
    for block in blocks {
        for proof in &block.transactions {
            search.transaction(block.block.time, proof, &mut findings);
        }
    }
    findings
}

struct Search<'a> {
    network: Network,
    catalogue: &'a Catalogue,
    kinds: HashMap<Address, ContractKind>,
    known: KnownRequests<'a>,
    by_topic: HashMap<B256, Vec<usize>>,
}

impl Search<'_> {
    fn odd(&self, proof: &TxProof, position: u32, reason: OddReason, detail: String) -> Oddity {
        Oddity {
            network: self.network,
            block_number: proof.block_number,
            tx_hash: Some(proof.tx_hash),
            position: Some(position),
            reason,
            detail,
            concerned: None,
        }
    }

    fn transaction(&self, paid_at: DateTime<Utc>, proof: &TxProof, findings: &mut BlockFindings) {
        let unreadable = proof.unreadable.iter();
        let unreadable = unreadable.map(|event| (event.position, event.reason.clone()));
        // Anyone can emit an event of zero units with a known reference; such events are ignored.
        let observed = || proof.observations.iter().filter(|observed| !observed.units.is_zero());
        let of_unreadable = observed().flat_map(|observed| {
            let rows = self.known.unreadable.iter();
            let rows = rows.filter(|(topic, _)| *topic == observed.reference_topic);
            rows.map(|(_, why)| (observed.position, why.clone()))
        });
        let odd = unreadable.chain(of_unreadable);
        let odd = odd.map(|(position, detail)| self.odd(proof, position, OddReason::Unreadable, detail));
        findings.odd.extend(odd);
        let kind_of = |address: &Address| self.kinds.get(address).copied();
        let is_intermediary = |address: &Address| kind_of(address).is_some_and(ContractKind::forwards_payments);
        let (calls, movements) = (ConversionCalls::read(proof, kind_of), Movements::of(proof));
        let mut legs = FeeLegs::default();
        let concerns_us = |observed: &Observation| self.by_topic.contains_key(&observed.reference_topic);
        if proof.observations.iter().any(concerns_us) {
            for observed in proof.observations.iter().filter(|observed| !concerns_us(observed)) {
                if let Ok(proven) = prove(observed, &movements, is_intermediary) {
                    legs.add(observed, calls.of(observed, proof, kind_of), &proven);
                }
            }
        }
        for observed in observed() {
            let rows = self.by_topic.get(&observed.reference_topic).into_iter().flatten();
            for row in rows.copied() {
                let request = &self.known.requests[row];
                let deposits = self.known.deposits.get(&request.row).map_or(&[][..], Vec::as_slice);
                if !request.matches(observed, deposits, self.catalogue) {
                    continue;
                }
                findings.paid_in.insert(proof.block_number);
                let mut proven = match prove(observed, &movements, is_intermediary) {
                    Ok(proven) => proven,
                    Err(why) => {
                        let detail = format!("a payment of request {} was not credited: {why:?}", request.id);
                        let odd = Oddity {
                            concerned: Some(Concerned::of(request)),
                            ..self.odd(proof, observed.position, OddReason::NothingMoved, detail)
                        };
                        findings.odd.push(odd);
                        continue;
                    }
                };
                // Only the key of an account signs a schedule, and the relayer that sent it is nobody's wallet.
                let is_execution =
                    proof.to.as_ref().and_then(kind_of) == Some(ContractKind::Erc20RecurringPaymentProxy);
                if is_execution {
                    proven.payer_eoa = proven.payer;
                }
                let call = calls.of(observed, proof, kind_of);
                let (price, handed) = (&request.terms.price, &self.known.handed_out[row]);
                let (compared, further_fees) = compare(observed, call, &mut legs, price, handed);
                let (fee_shortfall, departure) = match compared {
                    Comparison::AsHandedOut => (None, None),
                    Comparison::FeeShortfall { missing } => (Some(missing), None),
                    Comparison::NotHandedOut(departure) => (None, Some(departure)),
                };
                let credited = match request.terms.exchange() {
                    // What a quoted one is worth is told afterwards.
                    Exchange::Quoted => U256::ZERO,
                    Exchange::Direct | Exchange::OnChain => observed.credit(proven.received_units),
                };
                let settled = Settled {
                    observed: observed.clone(),
                    credited,
                    proven,
                    applied: None,
                    is_quoted: false,
                    fee_shortfall,
                    further_fees,
                    payer_access: None,
                    is_execution,
                    at: paid_at,
                };
                let departure = departure.map(|departure| departed(&settled, request, &departure));
                findings.matches.push(PaymentMatch {
                    settled,
                    request_row: row,
                    departure,
                });
            }
        }
    }
}

/// Says in what a payment departs from the price terms of its request. How much money it is about is not known yet.
fn departed(settled: &Settled, request: &Request, departure: &Departure) -> Oddity {
    let observed = &settled.observed;
    let (reason, what) = match departure {
        Departure::UnknownPath => (
            OddReason::PathNotHandedOut,
            "the path cannot be read from the transaction".to_owned(),
        ),
        Departure::Path(path) => {
            let hashes: Vec<String> = path.iter().map(|hash| hash.to_string().to_lowercase()).collect();
            (
                OddReason::PathNotHandedOut,
                format!("its path is {}", hashes.join(", ")),
            )
        }
        Departure::RateAge(age) => (
            OddReason::RateAgeNotHandedOut,
            format!("it accepts rates of {age} seconds, where 0 is any"),
        ),
    };
    Oddity {
        network: observed.network,
        block_number: observed.block_number,
        tx_hash: Some(observed.tx_hash),
        position: Some(observed.position),
        reason,
        detail: format!(
            "a conversion for request {} departs from its price terms: {what}",
            request.id
        ),
        concerned: Some(Concerned::of(request)),
    }
}
