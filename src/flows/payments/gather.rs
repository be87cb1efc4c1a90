//! Finds payments of known requests in proven blocks, and unexpected payments.

use super::{
    ahead::{SettledBlocks, settled_blocks},
    handed_out, payer_access,
    rating::{self, UnratedPayment},
};
use crate::{
    ctx::Ctx,
    domain::{
        handed_out::HandedOut,
        ids::RequestRowId,
        oddity::{AmountAtStake, OddReason, Oddity},
        off_ramp::DepositAddress,
        orchestrator_fees::OrchestratorFees,
        payment::{Hint, SettledBlock},
        payment_match::{BlockFindings, KnownRequests, PaymentMatch, find_payments},
        request::{Request, terms::Exchange},
    },
    flows::FlowResult,
    ports::chain::Chain,
    store::{self, Tx, requests::UnreadableRequest},
};
use alloy::primitives::B256;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Maximum number of events that the text of a quarantine row lists as examples.
const SAMPLES: usize = 3;

/// Payments of one commit.
pub(super) struct GatheredPayments {
    /// Last height that the commit settles.
    pub(super) read_to: u64,
    pub(super) requests: Vec<Request>,
    /// For each request, the fees of the calldata issued for it that its price terms do not already fix.
    handed_out: Vec<Vec<HandedOut>>,
    /// The deposit addresses issued for requests that are paid to bank accounts.
    deposits: HashMap<RequestRowId, Vec<DepositAddress>>,
    /// For each request, the orchestrator fees that its payments outside the read blocks paid.
    orchestrator_fees: Vec<OrchestratorFees>,
    pub(super) matches: Vec<PaymentMatch>,
    /// Blocks that contain a payment of a known request.
    paid_in: BTreeSet<u64>,
    pub(super) odd: Vec<Oddity>,
    /// Blocks that could not be proven from the responses of the nodes. They are retried separately.
    pub(super) unproven: Vec<u64>,
    /// Requests whose references appear in the blocks and whose rows cannot be read.
    pub(super) unreadable: Vec<UnreadableRequest>,
}

impl GatheredPayments {
    /// Returns the given payments, with their requests read again in the transaction that writes the payments.
    pub(super) async fn again(&self, tx: &Tx, chain: &dyn Chain, matches: &[&PaymentMatch]) -> FlowResult<Self> {
        let topics = matches.iter().map(|found| found.settled.observed.reference_topic);
        let (requests, _) = store::requests::by_topics(tx, chain.network(), &topics.collect()).await?;
        let row_of = |found: &PaymentMatch| {
            let row = &self.requests[found.request_row].row;
            requests.iter().position(|request| request.row == *row)
        };
        let placed = matches.iter().filter_map(|found| {
            Some(PaymentMatch {
                request_row: row_of(found)?,
                ..PaymentMatch::clone(found)
            })
        });
        Ok(Self {
            read_to: self.read_to,
            matches: placed.collect(),
            requests,
            paid_in: BTreeSet::new(),
            handed_out: Vec::new(),
            deposits: HashMap::new(),
            orchestrator_fees: Vec::new(),
            odd: Vec::new(),
            unproven: Vec::new(),
            unreadable: Vec::new(),
        })
    }
}

/// Finds the payments of known requests in a part.
pub(super) async fn gather(ctx: &Ctx, chain: &dyn Chain, part: &SettledBlocks) -> FlowResult<GatheredPayments> {
    let mut gathered = found(ctx, chain, part, &BTreeSet::new()).await?;
    judge_payers(ctx, &mut gathered).await?;
    Ok(gathered)
}

/// Finds the payments of a part like [`gather`], and also reads further blocks: those of recorded payments that no node
/// reported.
pub(super) async fn gather_with(
    ctx: &Ctx,
    chain: &dyn Chain,
    part: &SettledBlocks,
    blocks: BTreeSet<u64>,
) -> FlowResult<GatheredPayments> {
    let mut gathered = found(ctx, chain, part, &blocks).await?;
    read_more(ctx, chain, &mut gathered, part, blocks).await?;
    judge_payers(ctx, &mut gathered).await?;
    Ok(gathered)
}

/// Gathers a part with one search for its requests. `further` are blocks that are read afterwards.
async fn found(
    ctx: &Ctx,
    chain: &dyn Chain,
    part: &SettledBlocks,
    further: &BTreeSet<u64>,
) -> FlowResult<GatheredPayments> {
    let proven: BTreeMap<u64, Contents> = part
        .blocks
        .iter()
        .map(|(number, block)| (*number, Contents::of(block)))
        .collect();
    let mut denied: BTreeMap<u64, Vec<&(Hint, Vec<usize>)>> = BTreeMap::new();
    for told in &part.hints {
        let block = proven.get(&told.0.block_number);
        if block.is_some_and(|block| !block.holds(&told.0)) {
            denied.entry(told.0.block_number).or_default().push(told);
        }
    }
    let mut odd: Vec<Oddity> = denied
        .into_iter()
        .map(|(number, hints)| not_in_block(chain, number, &hints))
        .collect();
    odd.extend(part.failed.iter().map(|(number, reason)| Oddity {
        network: chain.network(),
        block_number: *number,
        tx_hash: None,
        position: None,
        reason: OddReason::Unprovable,
        detail: reason.clone(),
        concerned: None,
    }));
    let (requests, unreadable) = requests_of(ctx, chain, topics_in(part.blocks.values())).await?;
    let handed_out = handed_out::of(ctx, &requests).await?;
    let deposits = store::off_ramp_quotes::deposits_of(ctx.db.reader(), &requests).await?;
    let mut gathered = GatheredPayments {
        read_to: part.read_to,
        orchestrator_fees: paid_elsewhere(ctx, &requests, part, further).await?,
        requests,
        handed_out,
        deposits,
        matches: Vec::new(),
        paid_in: BTreeSet::new(),
        odd,
        unproven: part.failed.iter().map(|(number, _)| *number).collect(),
        unreadable,
    };
    judge(ctx, chain, part.blocks.values(), &mut gathered);
    rate(ctx, chain, &mut gathered).await?;
    weigh(ctx, chain, &mut gathered).await;
    set_apart(&mut gathered);
    Ok(gathered)
}

/// References of all events in blocks, including those that no node reported.
fn topics_in<'a>(blocks: impl Iterator<Item = &'a SettledBlock>) -> HashSet<B256> {
    let proofs = blocks.flat_map(|block| &block.transactions);
    proofs
        .flat_map(|proof| proof.observations.iter().map(|observed| observed.reference_topic))
        .collect()
}

async fn read_more(
    ctx: &Ctx,
    chain: &dyn Chain,
    gathered: &mut GatheredPayments,
    part: &SettledBlocks,
    mut numbers: BTreeSet<u64>,
) -> FlowResult<()> {
    let all = numbers.clone();
    numbers.retain(|number| !gathered.paid_in.contains(number));
    let (blocks, failed) = settled_blocks(chain, numbers).await?;
    gathered.unproven.extend(failed.into_iter().map(|(number, _)| number));
    let known: HashSet<B256> = gathered
        .requests
        .iter()
        .map(|request| request.reference.topic())
        .collect();
    let unreadable: HashSet<B256> = gathered.unreadable.iter().map(|request| request.topic).collect();
    let mut unknown = topics_in(blocks.values());
    unknown.retain(|topic| !known.contains(topic) && !unreadable.contains(topic));
    let (requests, unreadable) = requests_of(ctx, chain, unknown).await?;
    gathered.requests.extend(requests);
    gathered.unreadable.extend(unreadable);
    gathered.handed_out = handed_out::of(ctx, &gathered.requests).await?;
    gathered.deposits = store::off_ramp_quotes::deposits_of(ctx.db.reader(), &gathered.requests).await?;
    gathered.orchestrator_fees = paid_elsewhere(ctx, &gathered.requests, part, &all).await?;
    for found in &gathered.matches {
        let fees = &mut gathered.orchestrator_fees[found.request_row];
        *fees = fees.plus(found.settled.orchestrator_fees);
    }
    judge(ctx, chain, blocks.values(), gathered);
    rate(ctx, chain, gathered).await?;
    weigh(ctx, chain, gathered).await;
    set_apart(gathered);
    Ok(())
}

/// For each request, the orchestrator fees that its other payments paid: those that are recorded neither in the read
/// blocks nor for one of their transactions. The read blocks show these payments again.
async fn paid_elsewhere(
    ctx: &Ctx,
    requests: &[Request],
    part: &SettledBlocks,
    further: &BTreeSet<u64>,
) -> FlowResult<Vec<OrchestratorFees>> {
    let proofs = part.blocks.values().flat_map(|block| &block.transactions);
    let read: HashSet<B256> = proofs.map(|proof| proof.tx_hash).collect();
    let mut elsewhere = Vec::with_capacity(requests.len());
    for request in requests {
        let mut sum = OrchestratorFees::default();
        if request.terms.price.charges.has_captured() {
            for payment in store::payments::fees_of_request(ctx.db.reader(), request).await? {
                let number = payment.block_number;
                let is_read = part.blocks.contains_key(&number) || further.contains(&number);
                if !is_read && !read.contains(&payment.tx_hash) {
                    sum = sum.plus(payment.fees);
                }
            }
        }
        elsewhere.push(sum);
    }
    Ok(elsewhere)
}

async fn requests_of(
    ctx: &Ctx,
    chain: &dyn Chain,
    topics: HashSet<B256>,
) -> FlowResult<(Vec<Request>, Vec<UnreadableRequest>)> {
    Ok(store::requests::by_topics(ctx.db.reader(), chain.network(), &topics).await?)
}

/// Index of the events in a proven block, to check the reports of nodes.
struct Contents {
    hash: B256,
    /// Transactions, indices and references of the events in the block.
    events: HashSet<(B256, u64, B256)>,
    /// Transactions with undecodable events.
    unreadable: HashSet<B256>,
}

impl Contents {
    fn of(block: &SettledBlock) -> Self {
        let events = block.transactions.iter().flat_map(|proof| &proof.observations);
        let unreadable = block.transactions.iter().filter(|proof| !proof.unreadable.is_empty());
        Self {
            hash: block.block.hash,
            events: events
                .map(|observed| (observed.tx_hash, observed.log_index, observed.reference_topic))
                .collect(),
            unreadable: unreadable.map(|proof| proof.tx_hash).collect(),
        }
    }

    /// Whether the block contains a reported event.
    fn holds(&self, hint: &Hint) -> bool {
        let is_there = match hint.reference_topic {
            Some(topic) => self.events.contains(&(hint.tx_hash, hint.log_index, topic)),
            None => self.unreadable.contains(&hint.tx_hash),
        };
        is_there && self.hash == hint.block_hash
    }
}

/// Returns one quarantine row for all events that nodes reported in a block and that the proven block does not contain.
fn not_in_block(chain: &dyn Chain, number: u64, hints: &[&(Hint, Vec<usize>)]) -> Oddity {
    let tellers: BTreeSet<usize> = hints.iter().flat_map(|(_, tellers)| tellers).copied().collect();
    let nodes: Vec<String> = tellers.iter().map(|index| format!("node {}", index + 1)).collect();
    let samples: Vec<String> = hints
        .iter()
        .take(SAMPLES)
        .map(|(hint, _)| format!("index {} in transaction {}", hint.log_index, hint.tx_hash))
        .collect();
    Oddity {
        network: chain.network(),
        block_number: number,
        tx_hash: None,
        position: None,
        reason: OddReason::NotInBlock,
        detail: format!(
            "{} reported {} events that the proven block does not contain, among them {}",
            nodes.join(" and "),
            hints.len(),
            samples.join(", ")
        ),
        concerned: None,
    }
}

/// Determines how much each payment of a quoted request is worth in the currency of the request.
async fn rate(ctx: &Ctx, chain: &dyn Chain, gathered: &mut GatheredPayments) -> FlowResult<()> {
    let GatheredPayments {
        matches,
        requests,
        deposits,
        ..
    } = gathered;
    let requests = requests.as_slice();
    let unrated = matches.iter_mut().filter_map(|found| {
        let request = &requests[found.request_row];
        let is_quoted = request.terms.exchange() == Exchange::Quoted;
        let is_unrated = is_quoted && found.settled.applied.is_none() && found.departure.is_none();
        is_unrated.then_some(UnratedPayment {
            request,
            settled: &mut found.settled,
            departure: &mut found.departure,
        })
    });
    rating::rate(ctx, chain.network(), deposits, unrated.collect()).await
}

/// Checks whether the payers of link payments were allowed to pay.
async fn judge_payers(ctx: &Ctx, gathered: &mut GatheredPayments) -> FlowResult<()> {
    let GatheredPayments { matches, requests, .. } = gathered;
    let payments = matches
        .iter_mut()
        .map(|found| (&requests[found.request_row], &mut found.settled));
    payer_access::judge(ctx, payments.collect()).await
}

/// Determines, for payments that do not match the issued calldata, what share of the request they are worth. Small ones
/// are quarantined as minor.
async fn weigh(ctx: &Ctx, chain: &dyn Chain, gathered: &mut GatheredPayments) {
    let GatheredPayments { matches, requests, .. } = gathered;
    let is_unweighed = |found: &&mut PaymentMatch| found.departure.as_ref().is_some_and(|odd| odd.stake().is_none());
    let departed: Vec<&mut PaymentMatch> = matches.iter_mut().filter(is_unweighed).collect();
    let rows: BTreeSet<usize> = departed.iter().map(|found| found.request_row).collect();
    let wanted = rows.into_iter().map(|row| &requests[row]);
    let worth = handed_out::worth(ctx, chain.network(), wanted).await;
    for found in departed {
        let whole = worth.get(&requests[found.request_row].row).copied();
        let settled = &found.settled;
        let units = settled.proven.received_units;
        let stake = AmountAtStake::of(units, settled.credited, whole, ctx.payments.minor_share);
        if let Some(concerned) = found.departure.as_mut().and_then(|odd| odd.concerned.as_mut()) {
            concerned.stake = Some(stake);
        }
    }
}

/// Quarantines transfers that match several requests. A transfer without a rate is quarantined for the missing rate
/// instead.
fn set_apart(gathered: &mut GatheredPayments) {
    let GatheredPayments { matches, requests, .. } = gathered;
    let place = |found: &PaymentMatch| (found.settled.observed.tx_hash, found.settled.observed.position);
    let mut fitting: HashMap<(B256, u32), Vec<&Request>> = HashMap::new();
    for found in matches.iter() {
        fitting
            .entry(place(found))
            .or_default()
            .push(&requests[found.request_row]);
    }
    let is_rated = |found: &&mut PaymentMatch| {
        found
            .departure
            .as_ref()
            .is_none_or(|odd| odd.reason != OddReason::RateMissing)
    };
    for found in matches.iter_mut().filter(is_rated) {
        let of_several = Oddity::of_several(&found.settled.observed, &fitting[&place(found)]);
        found.departure = of_several.or_else(|| found.departure.take());
    }
}

/// Compares the events of proven blocks with the known requests: finds payments and unexpected payments.
fn judge<'a>(
    ctx: &Ctx,
    chain: &dyn Chain,
    blocks: impl Iterator<Item = &'a SettledBlock>,
    gathered: &mut GatheredPayments,
) {
    let unreadable = gathered.unreadable.iter().map(|request| {
        let why = format!(
            "the row of the request {} cannot be read: {}",
            request.id, request.error
        );
        (request.topic, why)
    });
    let unreadable: Vec<(B256, String)> = unreadable.collect();
    let known = KnownRequests {
        requests: &gathered.requests,
        handed_out: &gathered.handed_out,
        deposits: &gathered.deposits,
        orchestrator_fees: &gathered.orchestrator_fees,
        unreadable: &unreadable,
    };
    let BlockFindings { matches, paid_in, odd } = find_payments(chain.network(), &ctx.catalogue, blocks, known);
    gathered.matches.extend(matches);
    gathered.paid_in.extend(paid_in);
    gathered.odd.extend(odd);
}
