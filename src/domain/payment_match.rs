//! Finds payments of known requests in proven blocks, and detects unexpected payments.

use super::{
    address::Address,
    conversion_call::ConversionCalls,
    currency::{Catalogue, ContractKind},
    fee_legs::FeeLegs,
    handed_out::{Comparison, HandedOut, TermsDeparture, compare, take_captured},
    ids::RequestRowId,
    network::Network,
    oddity::{ConcernedRequest, OddReason, Oddity},
    off_ramp::DepositAddress,
    orchestrator_fees::OrchestratorFees,
    payment::{Movements, Observation, Settled, SettledBlock, TxProof, prove},
    request::{Request, terms::Exchange},
};
use alloy::primitives::{B256, U256};
use chrono::{DateTime, Utc};
use std::collections::{BTreeSet, HashMap};

/// A proven payment of a known request.
#[derive(Debug, Clone)]
pub struct PaymentMatch {
    /// The payment.
    pub settled: Settled,
    /// Position of the paid request among the known requests.
    pub request_row: usize,
    /// How the payment differs from the price terms of its request. Such a payment is credited only if the operator
    /// accepts it.
    pub departure: Option<Oddity>,
}

/// The requests that payments are matched with.
#[derive(Debug, Clone, Copy)]
pub struct KnownRequests<'a> {
    /// Readable requests.
    pub requests: &'a [Request],
    /// For each request, the platform fees in issued calldata that its price terms do not contain.
    pub handed_out: &'a [Vec<HandedOut>],
    /// For each request, the orchestrator fees that its payments outside the searched blocks paid.
    pub orchestrator_fees: &'a [OrchestratorFees],
    /// The deposit addresses issued for requests that are paid to bank accounts.
    pub deposits: &'a HashMap<RequestRowId, Vec<DepositAddress>>,
    /// Why the rows of some requests cannot be read, each with the reference topic of the request.
    pub unreadable: &'a [(B256, String)],
}

/// Findings in blocks for known requests.
#[derive(Debug, Default)]
pub struct BlockFindings {
    /// Payments, in the order of the chain.
    pub matches: Vec<PaymentMatch>,
    /// Blocks that contain a payment.
    pub paid_in: BTreeSet<u64>,
    /// Unexpected events.
    pub odd: Vec<Oddity>,
}

/// Finds payments of known requests, and unexpected events, in proven blocks of a network.
pub fn find_payments<'a>(
    network: Network,
    catalogue: &Catalogue,
    blocks: impl Iterator<Item = &'a SettledBlock>,
    known: KnownRequests<'_>,
) -> BlockFindings {
    // When two entries have the same address, the first counts.
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
    let mut orchestrator_fees = HashMap::new();
    for block in blocks {
        for proof in &block.transactions {
            search.transaction(block.block.time, proof, &mut orchestrator_fees, &mut findings);
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
    fn describe_oddity(&self, proof: &TxProof, position: u32, reason: OddReason, detail: String) -> Oddity {
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

    /// Adds the findings of a transaction. `orchestrator_fees` are the orchestrator fees that the payments of each
    /// request have paid so far, by the position of the request.
    fn transaction(
        &self,
        paid_at: DateTime<Utc>,
        proof: &TxProof,
        orchestrator_fees: &mut HashMap<usize, OrchestratorFees>,
        findings: &mut BlockFindings,
    ) {
        let unreadable = proof.unreadable.iter();
        let unreadable = unreadable.map(|event| (event.position, event.reason.clone()));
        // Any account can emit an event of zero units with a known reference; such events are ignored.
        let observed = || proof.observations.iter().filter(|observed| !observed.units.is_zero());
        let of_unreadable = observed().flat_map(|observed| {
            let rows = self.known.unreadable.iter();
            let rows = rows.filter(|(topic, _)| *topic == observed.reference_topic);
            rows.map(|(_, why)| (observed.position, why.clone()))
        });
        let odd = unreadable.chain(of_unreadable);
        let odd = odd.map(|(position, detail)| self.describe_oddity(proof, position, OddReason::Unreadable, detail));
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
        let first = findings.matches.len();
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
                        let detail = format!("a payment of request {} was not credited: {why}", request.id);
                        let odd = Oddity {
                            concerned: Some(ConcernedRequest::of(request)),
                            ..self.describe_oddity(proof, observed.position, OddReason::NothingMoved, detail)
                        };
                        findings.odd.push(odd);
                        continue;
                    }
                };
                // The payer is the account whose key signed the schedule. The sender of the transaction is the relayer.
                let is_execution =
                    proof.to.as_ref().and_then(kind_of) == Some(ContractKind::Erc20RecurringPaymentProxy);
                if is_execution {
                    proven.payer_eoa = proven.payer;
                }
                let call = calls.of(observed, proof, kind_of);
                let (price, handed) = (&request.terms.price, &self.known.handed_out[row]);
                let earlier = orchestrator_fees
                    .entry(row)
                    .or_insert(self.known.orchestrator_fees[row]);
                let price = &price.after(*earlier);
                let (compared, fees) = compare(observed, call, &mut legs, price, handed);
                *earlier = earlier.plus(fees.orchestrator);
                let (fee_shortfall, departure) = match compared {
                    Comparison::AsHandedOut => (None, None),
                    Comparison::FeeShortfall { missing } => (Some(missing), None),
                    Comparison::NotHandedOut(departure) => (None, Some(departure)),
                };
                let credited = match request.terms.exchange() {
                    // The worth of a quoted payment is determined later.
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
                    further_fees: fees.further,
                    orchestrator_fees: fees.orchestrator,
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
        for found in &mut findings.matches[first..] {
            let charges = &self.known.requests[found.request_row].terms.price.charges;
            if charges.has_captured() {
                let call = calls.of(&found.settled.observed, proof, kind_of);
                take_captured(&mut found.settled, call, &mut legs, charges);
            }
        }
    }
}

/// Describes how a payment departs from the price terms of its request. The amount at stake is not known yet.
fn departed(settled: &Settled, request: &Request, departure: &TermsDeparture) -> Oddity {
    let observed = &settled.observed;
    let (reason, what) = match departure {
        TermsDeparture::UnknownPath => (
            OddReason::PathNotHandedOut,
            "the path of the conversion cannot be decoded from the transaction".to_owned(),
        ),
        TermsDeparture::Path(path) => {
            let hashes: Vec<String> = path.iter().map(|hash| hash.to_string().to_lowercase()).collect();
            (
                OddReason::PathNotHandedOut,
                format!(
                    "the conversion used the path {}, which was not issued",
                    hashes.join(", ")
                ),
            )
        }
        TermsDeparture::RateAge(age) => (
            OddReason::RateAgeNotHandedOut,
            format!("the conversion accepted rates that are up to {age} seconds old (0 means any age)"),
        ),
    };
    Oddity {
        network: observed.network,
        block_number: observed.block_number,
        tx_hash: Some(observed.tx_hash),
        position: Some(observed.position),
        reason,
        detail: format!(
            "a conversion did not use the price terms of request {}: {what}",
            request.id
        ),
        concerned: Some(ConcernedRequest::of(request)),
    }
}
