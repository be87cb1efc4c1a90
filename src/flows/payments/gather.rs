//! Finds the payments of known requests in blocks that were proven, and what is odd about them.

use super::{
    ahead::{Part, settled_blocks},
    handed_out, payer_access,
    rating::{self, Unrated},
};
use crate::{
    ctx::Ctx,
    domain::{
        handed_out::HandedOut,
        ids::RequestRowId,
        oddity::{OddReason, Oddity, Stake},
        off_ramp::Deposit,
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

/// Events that are named where nodes told of more.
const SAMPLES: usize = 3;

/// What one commit settles.
pub(super) struct Gathered {
    /// Last height that it settles.
    pub(super) read_to: u64,
    pub(super) requests: Vec<Request>,
    /// What was handed out for each of them beyond its price terms.
    handed_out: Vec<Vec<HandedOut>>,
    /// The addresses that were handed out for those that bank accounts get.
    deposits: HashMap<RequestRowId, Vec<Deposit>>,
    pub(super) matches: Vec<PaymentMatch>,
    /// Blocks that hold a payment of a known request.
    paid_in: BTreeSet<u64>,
    pub(super) odd: Vec<Oddity>,
    /// Blocks that no answer proves now: they are tried again beside the others.
    pub(super) unproven: Vec<u64>,
    /// Requests whose references appear and whose rows cannot be read.
    pub(super) unreadable: Vec<UnreadableRequest>,
}

impl Gathered {
    /// Some of its payments with their requests as they are in a transaction, to be written there.
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
            odd: Vec::new(),
            unproven: Vec::new(),
            unreadable: Vec::new(),
        })
    }
}

/// Finds the payments of known requests in what was read.
pub(super) async fn gather(ctx: &Ctx, chain: &dyn Chain, part: &Part) -> FlowResult<Gathered> {
    let mut gathered = found(ctx, chain, part).await?;
    judge_payers(ctx, &mut gathered).await?;
    Ok(gathered)
}

/// The same with what further blocks prove: those of payments that are recorded and that nobody told of.
pub(super) async fn gather_with(
    ctx: &Ctx,
    chain: &dyn Chain,
    part: &Part,
    blocks: BTreeSet<u64>,
) -> FlowResult<Gathered> {
    let mut gathered = found(ctx, chain, part).await?;
    read_more(ctx, chain, &mut gathered, blocks).await?;
    judge_payers(ctx, &mut gathered).await?;
    Ok(gathered)
}

/// What was read, with one search for the requests.
async fn found(ctx: &Ctx, chain: &dyn Chain, part: &Part) -> FlowResult<Gathered> {
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
    let mut gathered = Gathered {
        read_to: part.read_to,
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

/// References of everything that blocks hold, also of what no node told of.
fn topics_in<'a>(blocks: impl Iterator<Item = &'a SettledBlock>) -> HashSet<B256> {
    let proofs = blocks.flat_map(|block| &block.transactions);
    proofs
        .flat_map(|proof| proof.observations.iter().map(|observed| observed.reference_topic))
        .collect()
}

async fn read_more(
    ctx: &Ctx,
    chain: &dyn Chain,
    gathered: &mut Gathered,
    mut numbers: BTreeSet<u64>,
) -> FlowResult<()> {
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
    judge(ctx, chain, blocks.values(), gathered);
    rate(ctx, chain, gathered).await?;
    weigh(ctx, chain, gathered).await;
    set_apart(gathered);
    Ok(())
}

async fn requests_of(
    ctx: &Ctx,
    chain: &dyn Chain,
    topics: HashSet<B256>,
) -> FlowResult<(Vec<Request>, Vec<UnreadableRequest>)> {
    Ok(store::requests::by_topics(ctx.db.reader(), chain.network(), &topics).await?)
}

/// Where a proven block holds what, to be looked up for everything that nodes told of it.
struct Contents {
    hash: B256,
    /// Transactions, indices and references of its events.
    events: HashSet<(B256, u64, B256)>,
    /// Transactions with events that could not be read.
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

    /// Whether the block holds what a node told.
    fn holds(&self, hint: &Hint) -> bool {
        let is_there = match hint.reference_topic {
            Some(topic) => self.events.contains(&(hint.tx_hash, hint.log_index, topic)),
            None => self.unreadable.contains(&hint.tx_hash),
        };
        is_there && self.hash == hint.block_hash
    }
}

/// What nodes told of a proven block that does not hold it: one thing, however much they told.
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
            "{} told of {} events which the proven block does not hold, among them {}",
            nodes.join(" and "),
            hints.len(),
            samples.join(", ")
        ),
        concerned: None,
    }
}

/// Says of payments of quoted requests what they are worth.
async fn rate(ctx: &Ctx, chain: &dyn Chain, gathered: &mut Gathered) -> FlowResult<()> {
    let Gathered {
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
        is_unrated.then_some(Unrated {
            request,
            settled: &mut found.settled,
            departure: &mut found.departure,
        })
    });
    rating::rate(ctx, chain.network(), deposits, unrated.collect()).await
}

/// Says of payments of links whether who paid might have.
async fn judge_payers(ctx: &Ctx, gathered: &mut Gathered) -> FlowResult<()> {
    let Gathered { matches, requests, .. } = gathered;
    let payments = matches
        .iter_mut()
        .map(|found| (&requests[found.request_row], &mut found.settled));
    payer_access::judge(ctx, payments.collect()).await
}

/// Says of payments that keep to nothing that was handed out how much money they are about.
async fn weigh(ctx: &Ctx, chain: &dyn Chain, gathered: &mut Gathered) {
    let Gathered { matches, requests, .. } = gathered;
    let is_unweighed = |found: &&mut PaymentMatch| found.departure.as_ref().is_some_and(|odd| odd.stake().is_none());
    let departed: Vec<&mut PaymentMatch> = matches.iter_mut().filter(is_unweighed).collect();
    let rows: BTreeSet<usize> = departed.iter().map(|found| found.request_row).collect();
    let wanted = rows.into_iter().map(|row| &requests[row]);
    let worth = handed_out::worth(ctx, chain.network(), wanted).await;
    for found in departed {
        let whole = worth.get(&requests[found.request_row].row).copied();
        let settled = &found.settled;
        let units = settled.proven.received_units;
        let stake = Stake::of(units, settled.credited, whole, ctx.payments.minor_share);
        if let Some(concerned) = found.departure.as_mut().and_then(|odd| odd.concerned.as_mut()) {
            concerned.stake = Some(stake);
        }
    }
}

/// Sets aside transfers that several requests fit. One without a rate is set aside for that.
fn set_apart(gathered: &mut Gathered) {
    let Gathered { matches, requests, .. } = gathered;
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

/// Takes from proven blocks what concerns the requests that are known.
fn judge<'a>(ctx: &Ctx, chain: &dyn Chain, blocks: impl Iterator<Item = &'a SettledBlock>, gathered: &mut Gathered) {
    let unreadable = gathered.unreadable.iter().map(|request| {
        let why = format!(
            "the row of its request {} cannot be read: {}",
            request.id, request.error
        );
        (request.topic, why)
    });
    let unreadable: Vec<(B256, String)> = unreadable.collect();
    let known = KnownRequests {
        requests: &gathered.requests,
        handed_out: &gathered.handed_out,
        deposits: &gathered.deposits,
        unreadable: &unreadable,
    };
    let BlockFindings { matches, paid_in, odd } = find_payments(chain.network(), &ctx.catalogue, blocks, known);
    gathered.matches.extend(matches);
    gathered.paid_in.extend(paid_in);
    gathered.odd.extend(odd);
}
