//! Makes payments final: looks where the nodes tell of payments of known requests, takes what those blocks prove, credits
//! it once, and writes the events and deliveries in the same commit.

use crate::{
    ctx::Ctx,
    domain::{
        address::Address,
        conversion_call::ConversionCalls,
        currency::ContractKind,
        event::{Event, PaymentReceived},
        handed_out::{Comparison, HandedOut, compare},
        ids::{PaymentId, QuarantineId},
        ledger::Ledger,
        oddity::{Concerned, OddReason, Oddity},
        payment::{Hint, Observation, Settled, SettledBlock, TxProof, prove},
        request::Request,
    },
    flows::{FlowError, FlowResult, payments::handed_out, publish_all},
    ports::chain::{Chain, ChainError, Told},
    store::{
        self, Tx,
        backlogs::{Backlog, BacklogReason},
        cursors::{Cursor, Mark},
        payments::{PaymentRecord, SettledPayment},
    },
};
use alloy::primitives::B256;
use futures_util::{StreamExt, stream};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Final blocks that are read and committed together while catching up.
pub(super) const RANGE_BLOCKS_PER_STEP: u64 = 2_000;

/// Payments that are confirmed with one commit, give or take those of its last block.
const PAYMENTS_PER_COMMIT: usize = 256;

/// Blocks that are proven at the same time.
const PROOFS_IN_FLIGHT: usize = 16;

/// How often a commit is tried again when a request changed under it.
const COMMITS_MAX: usize = 3;

/// Which memory of the chain moves with a commit.
#[derive(Debug, Clone, Copy)]
pub(super) enum Progress<'a> {
    /// The newest settled block, which is read up to.
    Cursor(&'a Cursor),
    /// A range that is filled in beside.
    Backlog(&'a Backlog),
    /// None: the range is settled already and mended.
    Nothing,
}

/// A payment of a known request, proven.
pub(super) struct Match {
    pub(super) settled: Settled,
    pub(super) request_row: usize,
    /// In what it departs from what was handed out, so that it is not credited unless the operator accepts it.
    pub(super) departure: Option<Oddity>,
}

/// What one commit settles.
pub(super) struct Gathered {
    /// Last height that it settles.
    pub(super) read_to: u64,
    pub(super) requests: Vec<Request>,
    /// What was handed out for each of them.
    handed_out: Vec<Vec<HandedOut>>,
    pub(super) matches: Vec<Match>,
    /// Transactions that hold a payment of a known request.
    proofs: Vec<TxProof>,
    odd: Vec<Oddity>,
    /// Blocks that no answer proves now: they are tried again beside the others.
    pub(super) unproven: Vec<u64>,
}

/// Settles final blocks from `from` on, at most to `to`, in one commit; returns the last height that was settled.
pub(super) async fn run(
    ctx: &Ctx,
    chain: &dyn Chain,
    (from, to): (u64, u64),
    proves_absence: bool,
    progress: Progress<'_>,
) -> FlowResult<u64> {
    let told = chain.told(from, to, proves_absence).await?;
    let known = known_heights(ctx, chain, (from, told.read_to), progress).await?;
    for _ in 0..COMMITS_MAX {
        let gathered = gather(ctx, chain, &told, &known).await?;
        if let (Progress::Backlog(backlog), Some(number)) = (progress, gathered.unproven.first())
            && backlog.reason == BacklogReason::Unproven
        {
            // The range is this block alone: to go on would be to forget it.
            return Err(FlowError::Unavailable(anyhow::anyhow!(
                "block {number} still cannot be proven"
            )));
        }
        let read_to = gathered.read_to;
        let reached = match progress {
            Progress::Cursor(_) => match told.reached.filter(|reached| reached.number == read_to) {
                Some(reached) => Some(reached),
                None => Some(chain.agreed(read_to).await?),
            },
            Progress::Backlog(_) | Progress::Nothing => None,
        };
        let tx = ctx.db.begin("confirm_blocks").await?;
        if !write(ctx, chain, &tx, from, gathered).await? {
            continue;
        }
        match (progress, reached) {
            (Progress::Cursor(cursor), Some(block)) => {
                let mark = Mark {
                    number: block.number,
                    hash: block.hash,
                };
                let next = Cursor {
                    finalized: mark,
                    seen: if cursor.seen.number < mark.number {
                        mark
                    } else {
                        cursor.seen
                    },
                    // The chain went on from what was final, so there is nothing to go back to.
                    may_rewind: false,
                    updated_at: ctx.clock.now(),
                    ..cursor.clone()
                };
                store::observations::delete_up_to(&tx, cursor.network, mark.number).await?;
                store::cursors::push_blocks(&tx, cursor.network, &[block]).await?;
                store::cursors::save(&tx, &next).await?;
            }
            (Progress::Backlog(backlog), _) => store::backlogs::advance(&tx, backlog, read_to).await?,
            (Progress::Cursor(_), None) | (Progress::Nothing, _) => {}
        }
        tx.commit().await?;
        ctx.due.notify_one();
        return Ok(read_to);
    }
    Err(FlowError::Unavailable(anyhow::anyhow!(
        "requests kept changing while their payments were confirmed"
    )))
}

/// Blocks of a range that are read whether a list names them or not: those of notes and of what was set aside, and the
/// one that the range was queued for. Nothing is decided on the absence of what is known already.
async fn known_heights(
    ctx: &Ctx,
    chain: &dyn Chain,
    (from, to): (u64, u64),
    progress: Progress<'_>,
) -> FlowResult<BTreeSet<u64>> {
    let network = chain.network();
    let mut heights = store::quarantine::open_heights(ctx.db.reader(), network, (from, to)).await?;
    match progress {
        Progress::Cursor(_) => {
            heights.extend(store::observations::heights(ctx.db.reader(), network, (from, to)).await?)
        }
        Progress::Backlog(backlog) => match backlog.reason {
            BacklogReason::Unproven | BacklogReason::Quarantine => heights.extend(from..=to),
            BacklogReason::Start | BacklogReason::Rescan => {}
        },
        Progress::Nothing => {}
    }
    Ok(heights)
}

/// Finds the payments of known requests and what their blocks prove: of those that a list names, and of
/// `known_heights`.
pub(super) async fn gather(
    ctx: &Ctx,
    chain: &dyn Chain,
    told: &Told,
    known_heights: &BTreeSet<u64>,
) -> FlowResult<Gathered> {
    let topics = told.hints.iter().filter_map(|(hint, _)| hint.reference_topic);
    let mut requests = requests_of(ctx, chain, topics.collect()).await?;
    let known: HashSet<B256> = requests.iter().map(|request| request.reference.topic()).collect();
    // An event without a readable reference may be anybody's.
    let concerns = |hint: &Hint| hint.reference_topic.is_none_or(|topic| known.contains(&topic));
    let mut hints: Vec<&(Hint, Vec<usize>)> = told.hints.iter().filter(|(hint, _)| concerns(hint)).collect();
    hints.sort_by_key(|(hint, _)| (hint.block_number, hint.log_index));
    let named: BTreeSet<u64> = hints.iter().map(|(hint, _)| hint.block_number).collect();
    let mut heights: Vec<u64> = hints.iter().map(|(hint, _)| hint.block_number).collect();
    heights.extend(known_heights.difference(&named));
    heights.sort_unstable();
    let read_to = heights.get(PAYMENTS_PER_COMMIT - 1).copied().unwrap_or(told.read_to);
    hints.retain(|(hint, _)| hint.block_number <= read_to);
    let numbers: BTreeSet<u64> = heights.into_iter().filter(|height| *height <= read_to).collect();
    let (blocks, failed) = settled_blocks(chain, numbers).await?;
    let mut odd: Vec<Oddity> = hints
        .iter()
        .filter_map(|(hint, tellers)| not_in_block(chain, hint, tellers, blocks.get(&hint.block_number)?))
        .collect();
    odd.extend(failed.iter().map(|(number, reason)| Oddity {
        network: chain.network(),
        block_number: *number,
        tx_hash: None,
        position: None,
        reason: OddReason::Unprovable,
        detail: reason.clone(),
        concerned: None,
    }));
    let unmentioned = blocks.values().flat_map(|block| &block.transactions);
    let unmentioned = unmentioned.flat_map(|proof| proof.observations.iter().map(|observed| observed.reference_topic));
    let unmentioned: HashSet<B256> = unmentioned.filter(|topic| !known.contains(topic)).collect();
    requests.extend(requests_of(ctx, chain, unmentioned).await?);
    let handed_out = handed_out::of(ctx, &requests).await?;
    let mut gathered = Gathered {
        read_to,
        requests,
        handed_out,
        matches: Vec::new(),
        proofs: Vec::new(),
        odd,
        unproven: failed.into_iter().map(|(number, _)| number).collect(),
    };
    for block in blocks.into_values() {
        judge(ctx, chain, block, &mut gathered);
    }
    Ok(gathered)
}

/// Adds what further blocks prove: those of payments that are recorded and that nobody told of.
pub(super) async fn read_more(
    ctx: &Ctx,
    chain: &dyn Chain,
    gathered: &mut Gathered,
    mut numbers: BTreeSet<u64>,
) -> FlowResult<()> {
    for proof in &gathered.proofs {
        numbers.remove(&proof.block_number);
    }
    let (blocks, failed) = settled_blocks(chain, numbers).await?;
    gathered.unproven.extend(failed.into_iter().map(|(number, _)| number));
    let proofs = blocks.values().flat_map(|block| &block.transactions);
    let topics = proofs.flat_map(|proof| proof.observations.iter().map(|observed| observed.reference_topic));
    let known: HashSet<B256> = gathered
        .requests
        .iter()
        .map(|request| request.reference.topic())
        .collect();
    let unknown: HashSet<B256> = topics.filter(|topic| !known.contains(topic)).collect();
    gathered.requests.extend(requests_of(ctx, chain, unknown).await?);
    gathered.handed_out = handed_out::of(ctx, &gathered.requests).await?;
    for block in blocks.into_values() {
        judge(ctx, chain, block, gathered);
    }
    Ok(())
}

async fn requests_of(ctx: &Ctx, chain: &dyn Chain, topics: HashSet<B256>) -> FlowResult<Vec<Request>> {
    if topics.is_empty() {
        return Ok(Vec::new());
    }
    let topics: Vec<B256> = topics.into_iter().collect();
    Ok(store::requests::by_topics(ctx.db.reader(), chain.network(), &topics).await?)
}

/// The proven blocks, and why the others could not be proven although nodes answered.
type Blocks = (BTreeMap<u64, SettledBlock>, Vec<(u64, String)>);

async fn settled_blocks(chain: &dyn Chain, numbers: BTreeSet<u64>) -> FlowResult<Blocks> {
    let mut answers = stream::iter(numbers)
        .map(|number| async move { (number, chain.settled(number).await) })
        .buffer_unordered(PROOFS_IN_FLIGHT);
    let (mut blocks, mut failed, mut withheld) = (BTreeMap::new(), Vec::new(), Vec::new());
    while let Some((number, answer)) = answers.next().await {
        match answer {
            Ok(block) => drop(blocks.insert(number, block)),
            Err(ChainError::Malformed { reason, .. }) => failed.push((number, reason)),
            Err(ChainError::Withheld { network, reason }) => withheld.push((number, network, reason)),
            Err(error) => return Err(error.into()),
        }
    }
    // Where nodes deliver other blocks, they are not simply gone.
    if blocks.is_empty()
        && let Some((_, network, reason)) = withheld.pop()
    {
        return Err(ChainError::Withheld { network, reason }.into());
    }
    failed.extend(withheld.into_iter().map(|(number, _, reason)| (number, reason)));
    Ok((blocks, failed))
}

/// What a node told and the proven block does not hold.
fn not_in_block(chain: &dyn Chain, hint: &Hint, tellers: &[usize], block: &SettledBlock) -> Option<Oddity> {
    let proof = block.transaction(&hint.tx_hash);
    let is_there = |observed: &Observation| {
        observed.log_index == hint.log_index && Some(observed.reference_topic) == hint.reference_topic
    };
    let is_proven = proof.is_some_and(|proof| {
        proof.observations.iter().any(is_there) || (hint.reference_topic.is_none() && !proof.unreadable.is_empty())
    });
    if is_proven && block.block.hash == hint.block_hash {
        return None;
    }
    let nodes: Vec<String> = tellers.iter().map(|index| format!("node {}", index + 1)).collect();
    Some(Oddity {
        network: chain.network(),
        block_number: hint.block_number,
        tx_hash: Some(hint.tx_hash),
        position: None,
        reason: OddReason::NotInBlock,
        detail: format!(
            "{} told of an event at index {} of block {}, which the proven block does not hold",
            nodes.join(" and "),
            hint.log_index,
            hint.block_hash
        ),
        concerned: None,
    })
}

/// Takes from a proven block what concerns known requests.
fn judge(ctx: &Ctx, chain: &dyn Chain, block: SettledBlock, gathered: &mut Gathered) {
    let network = chain.network();
    let kind_of = |address: &Address| {
        let contracts = ctx.catalogue.contracts(network);
        let known = contracts.iter().find(|contract| contract.address == *address);
        known.map(|contract| contract.kind)
    };
    let is_intermediary = |address: &Address| kind_of(address).is_some_and(ContractKind::forwards_payments);
    let mut by_topic: HashMap<B256, Vec<usize>> = HashMap::new();
    for (row, request) in gathered.requests.iter().enumerate() {
        by_topic.entry(request.reference.topic()).or_default().push(row);
    }
    for proof in block.transactions {
        gathered.odd.extend(proof.unreadable.iter().map(|event| Oddity {
            network,
            block_number: proof.block_number,
            tx_hash: Some(proof.tx_hash),
            position: Some(event.position),
            reason: OddReason::Unreadable,
            detail: event.reason.clone(),
            concerned: None,
        }));
        let mut is_ours = false;
        let calls = ConversionCalls::read(&proof, kind_of);
        // Anybody can emit events of nothing with a known reference; they are nobody's business.
        for observed in proof.observations.iter().filter(|observed| !observed.units.is_zero()) {
            let rows = by_topic.get(&observed.reference_topic).into_iter().flatten();
            for row in rows.copied() {
                if !gathered.requests[row].matches(observed, &ctx.catalogue) {
                    continue;
                }
                is_ours = true;
                match prove(observed, &proof, is_intermediary) {
                    Ok(proven) => {
                        let call = calls.of(observed, &proof, kind_of);
                        let (fee_shortfall, departure) = match compare(observed, call, &gathered.handed_out[row]) {
                            Comparison::AsHandedOut => (None, None),
                            Comparison::FeeShortfall { missing } => (Some(missing), None),
                            Comparison::NotHandedOut(departure) => (None, Some(departure)),
                        };
                        let request = &gathered.requests[row];
                        let departure = departure.map(|departure| handed_out::oddity(observed, request, &departure));
                        let settled = Settled {
                            observed: observed.clone(),
                            credited: observed.credit(proven.received_units),
                            proven,
                            fee_shortfall,
                            at: block.block.time,
                        };
                        gathered.matches.push(Match {
                            settled,
                            request_row: row,
                            departure,
                        });
                    }
                    Err(why) => gathered.odd.push(Oddity {
                        network,
                        block_number: proof.block_number,
                        tx_hash: Some(proof.tx_hash),
                        position: Some(observed.position),
                        reason: OddReason::NothingMoved,
                        detail: format!(
                            "a payment of request {} was not credited: {why:?}",
                            gathered.requests[row].id
                        ),
                        concerned: Some(Concerned::of(&gathered.requests[row])),
                    }),
                }
            }
        }
        if is_ours {
            gathered.proofs.push(proof);
        }
    }
}

/// Writes what was gathered; `false` when a request changed meanwhile, so that nothing may be kept.
async fn write(ctx: &Ctx, chain: &dyn Chain, tx: &Tx, from: u64, gathered: Gathered) -> FlowResult<bool> {
    let Gathered {
        read_to,
        requests,
        matches,
        proofs,
        mut odd,
        unproven,
        ..
    } = gathered;
    let now = ctx.clock.now();
    let network = chain.network();
    store::quarantine::settle_blocks(tx, network, (from, read_to), &unproven, now).await?;
    for number in unproven {
        store::backlogs::push(tx, network, (number, number), BacklogReason::Unproven, now).await?;
    }
    place_counted(tx, chain, &proofs).await?;
    let mut credited = Vec::new();
    let departed = matches.iter().filter(|payment| payment.departure.is_some());
    let departed: Vec<B256> = departed.map(|payment| payment.settled.observed.tx_hash).collect();
    let accepted = store::quarantine::accepted(tx, network, &departed).await?;
    for payment in matches {
        let observed = &payment.settled.observed;
        let is_accepted = accepted.contains(&(observed.tx_hash, observed.position));
        match payment.departure {
            // What was credited before it could be compared stays.
            Some(departure) if !is_accepted && !store::payments::is_recorded(tx, observed).await? => {
                odd.push(departure);
            }
            _ => credited.push((payment.settled, payment.request_row)),
        }
    }
    for odd in odd {
        tracing::warn!(%network, block = odd.block_number, tx_hash = ?odd.tx_hash, reason = odd.reason.wire(), odd.detail, "set aside");
        store::quarantine::put(tx, &odd, QuarantineId(ctx.ids.ulid()), now).await?;
    }
    let recorded: Vec<SettledPayment<'_>> = credited
        .iter()
        .map(|(settled, request_row)| SettledPayment {
            id: PaymentId(ctx.ids.ulid()),
            request: &requests[*request_row],
            settled,
            created_at: now,
        })
        .collect();
    if recorded.is_empty() {
        return Ok(true);
    }
    let written = store::payments::insert_new(tx, &recorded).await?;
    let reversals = reinstate(tx, chain, &recorded, &written).await?;
    crate::fail_at("confirm_blocks", "recorded");
    let mut ledgers: BTreeMap<usize, Ledger> = BTreeMap::new();
    let mut events = Vec::new();
    for ((settled, request_row), reversals) in credited.into_iter().zip(reversals) {
        let Some(reversals) = reversals else { continue };
        let request = &requests[request_row];
        if settled.fee_shortfall.is_some() {
            metrics::counter!("prs_payment_fee_shortfalls_total", "network" => network.id()).increment(1);
        }
        let before = ledgers.get(&request_row).unwrap_or(&request.ledger);
        let (ledger, told) = before.settle(settled.credited, settled.observed.tx_hash);
        if let Some(settlement) = told {
            let request = Request {
                ledger: ledger.clone(),
                ..request.clone()
            };
            let received = PaymentReceived {
                reversals,
                ..PaymentReceived::new(settlement, request, settled)
            };
            let event = Event::PaymentReceived(Box::new(received));
            let twins = event.twins(ctx.webhooks.scoped_variants);
            events.push(event);
            events.extend(twins);
        }
        ledgers.insert(request_row, ledger);
    }
    let changes: Vec<_> = ledgers.iter().map(|(row, ledger)| (&requests[*row], ledger)).collect();
    if !store::requests::advance_all(tx, &changes, now).await? {
        return Ok(false);
    }
    crate::fail_at("confirm_blocks", "credited");
    publish_all(ctx, tx, &events).await?;
    Ok(true)
}

/// How often each payment was reversed before, in their order; those that count already stand as `None`.
async fn reinstate(
    tx: &Tx,
    chain: &dyn Chain,
    payments: &[SettledPayment<'_>],
    written: &HashSet<PaymentId>,
) -> FlowResult<Vec<Option<u32>>> {
    let recorded_before = payments.iter().filter(|payment| !written.contains(&payment.id));
    let tx_hashes: Vec<B256> = recorded_before
        .map(|payment| payment.settled.observed.tx_hash)
        .collect();
    let stored = store::payments::of_transactions(tx, chain.network(), &tx_hashes).await?;
    let is_reversed = |payment: &&PaymentRecord| payment.reversal.is_some();
    let reversed = stored.iter().filter(is_reversed);
    let reversed: HashSet<(B256, u32)> = reversed.map(|payment| (payment.tx_hash, payment.position)).collect();
    let mut reversals = Vec::with_capacity(payments.len());
    for payment in payments {
        let observed = &payment.settled.observed;
        reversals.push(if written.contains(&payment.id) {
            Some(0)
        } else if reversed.contains(&(observed.tx_hash, observed.position)) {
            store::payments::reinstate(tx, payment).await?
        } else {
            None
        });
    }
    Ok(reversals)
}

/// Payments that were recorded when positions counted payments alone get the position that the receipt shows: in the
/// order of their transaction, each to the event of the same reference, payee and amount.
async fn place_counted(tx: &Tx, chain: &dyn Chain, proofs: &[TxProof]) -> FlowResult<()> {
    let tx_hashes: Vec<B256> = proofs.iter().map(|proof| proof.tx_hash).collect();
    let mut taken: HashSet<(B256, u32)> = HashSet::new();
    for payment in store::payments::counted(tx, chain.network(), &tx_hashes).await? {
        let same = |observed: &&Observation| {
            observed.reference_topic == payment.reference.topic()
                && observed.payee == payment.payee
                && observed.units == payment.event_units
        };
        let of_transaction = proofs.iter().filter(|proof| proof.tx_hash == payment.tx_hash);
        let place = of_transaction
            .flat_map(|proof| &proof.observations)
            .filter(same)
            .find(|observed| taken.insert((observed.tx_hash, observed.position)));
        if let Some(observed) = place {
            store::payments::place(tx, &payment.id, observed).await?;
        }
    }
    Ok(())
}
