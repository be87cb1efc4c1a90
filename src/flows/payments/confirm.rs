//! Makes payments final: reads the final blocks a second time, proves what matches a request by its receipt, credits
//! it once, and writes the events and deliveries in the same commit.

use crate::{
    ctx::Ctx,
    domain::{
        address::Address,
        event::{Event, PaymentReceived},
        ids::PaymentId,
        payment::{Observation, ProvenTransfer, Settled, TxProof, Unproven, prove},
        request::Request,
    },
    flows::{FlowError, FlowResult, publish},
    ports::chain::{Chain, ChainError, Witness},
    store::{
        self, StoreError,
        cursors::{Cursor, Mark},
        observations::ObservationState,
        payments::SettledPayment,
    },
};
use alloy::primitives::B256;
use chrono::{DateTime, Utc};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Requests that are looked up with one statement.
const TOPICS_PER_LOOKUP: usize = 500;

/// Payments that are confirmed with one commit, give or take those of its last block.
const PAYMENTS_PER_COMMIT: usize = 64;

/// How often a commit is tried again when a request changed under it.
const COMMITS_MAX: usize = 3;

/// Why payments could not be made final.
#[derive(Debug)]
pub enum ConfirmError {
    /// Two sources contradict each other: the chain has to stop.
    Disagreement(String),
    /// Try again later.
    Failed(FlowError),
}

impl From<FlowError> for ConfirmError {
    fn from(error: FlowError) -> Self {
        Self::Failed(error)
    }
}

impl From<StoreError> for ConfirmError {
    fn from(error: StoreError) -> Self {
        Self::Failed(error.into())
    }
}

impl From<ChainError> for ConfirmError {
    fn from(error: ChainError) -> Self {
        match error {
            ChainError::Disagreement { reason, .. } => Self::Disagreement(reason),
            other => Self::Failed(other.into()),
        }
    }
}

/// An observation that belongs to a request, with the receipt that proves it.
struct Match {
    observed: Observation,
    request_row: usize,
    outcome: Result<Settled, Unproven>,
}

/// Confirms the blocks after the cursor up to `end`, in as many commits as the node's answers need.
pub async fn run(ctx: &Ctx, chain: &dyn Chain, cursor: &mut Cursor, end: u64) -> Result<(), ConfirmError> {
    while cursor.finalized.number < end {
        let from = cursor.finalized.number + 1;
        let (audited, read_to) = chain.observations_in(from, end, Witness::Second).await?;
        for round in 1.. {
            let stored = store::observations::in_range(ctx.db.reader(), chain.network(), from, read_to).await?;
            contradictions(&audited, &stored)?;
            let mut missed = missed(&audited, &stored);
            let known = stored.into_iter().map(|(observed, _)| observed);
            let mut candidates: Vec<Observation> = known.chain(missed.iter().cloned()).collect();
            let requests = requests_of(ctx, chain, &candidates).await?;
            // What does not fit into this commit is read again for the next one.
            let confirm_to = last_block_of_commit(ctx, &candidates, &requests, read_to);
            candidates.retain(|observed| observed.block_number <= confirm_to);
            missed.retain(|observed| observed.block_number <= confirm_to);
            let final_hash = agreed_hash(chain, confirm_to).await?;
            let matches = prove_matches(ctx, chain, &candidates, &requests).await?;
            let finalized = Mark {
                number: confirm_to,
                hash: final_hash,
            };
            let next = Cursor {
                finalized,
                updated_at: ctx.clock.now(),
                ..cursor.clone()
            };
            if commit(ctx, &next, &missed, requests, matches).await? {
                *cursor = next;
                ctx.due.notify_one();
                break;
            }
            if round == COMMITS_MAX {
                return Err(ConfirmError::Failed(FlowError::Unavailable(anyhow::anyhow!(
                    "requests kept changing while their payments were confirmed"
                ))));
            }
        }
    }
    Ok(())
}

/// The last block whose payments go into one commit: whole blocks, until there are enough.
///
/// A commit that grows with the backlog would take longer than a service that keeps dying lives, and never end.
fn last_block_of_commit(ctx: &Ctx, candidates: &[Observation], requests: &[Request], read_to: u64) -> u64 {
    let mut by_topic: HashMap<B256, Vec<&Request>> = HashMap::new();
    for request in requests {
        by_topic.entry(request.reference.topic()).or_default().push(request);
    }
    let fits = |observed: &&Observation| {
        let known = by_topic.get(&observed.reference_topic).into_iter().flatten();
        known
            .into_iter()
            .any(|request| request.matches(observed, &ctx.catalogue))
    };
    let mut blocks: Vec<u64> = candidates
        .iter()
        .filter(fits)
        .map(|observed| observed.block_number)
        .collect();
    blocks.sort_unstable();
    blocks
        .get(PAYMENTS_PER_COMMIT - 1)
        .copied()
        .unwrap_or(read_to)
        .min(read_to)
}

/// The hash of a final block, on which two witnesses must agree.
async fn agreed_hash(chain: &dyn Chain, number: u64) -> Result<B256, ConfirmError> {
    let first = chain.block(number, Witness::First).await?;
    let second = chain.block(number, Witness::Second).await?;
    match (first, second) {
        (Some(first), Some(second)) if first.hash == second.hash => Ok(first.hash),
        (Some(_), Some(_)) => Err(ConfirmError::Disagreement(format!(
            "nodes show different final blocks at height {number}"
        ))),
        _ => Err(ConfirmError::Failed(FlowError::from(ChainError::Malformed {
            network: chain.network(),
            reason: format!("final block {number} is missing"),
        }))),
    }
}

/// Both readings may have gaps, but what both show of a final block must be the same.
fn contradictions(audited: &[Observation], stored: &[(Observation, ObservationState)]) -> Result<(), ConfirmError> {
    let key = |observed: &Observation| (observed.tx_hash, observed.ordinal);
    let known: HashMap<(B256, u32), &Observation> =
        stored.iter().map(|(observed, _)| (key(observed), observed)).collect();
    match audited
        .iter()
        .find(|observed| known.get(&key(observed)).is_some_and(|known| known != observed))
    {
        Some(observed) => Err(ConfirmError::Disagreement(format!(
            "nodes show different payment events in transaction {} of a final block",
            observed.tx_hash
        ))),
        None => Ok(()),
    }
}

/// What the second reading shows and the first did not.
fn missed(audited: &[Observation], stored: &[(Observation, ObservationState)]) -> Vec<Observation> {
    let known: HashSet<(B256, u32)> = stored
        .iter()
        .map(|(observed, _)| (observed.tx_hash, observed.ordinal))
        .collect();
    let missed: Vec<Observation> = audited
        .iter()
        .filter(|observed| !known.contains(&(observed.tx_hash, observed.ordinal)))
        .cloned()
        .collect();
    if let Some(first) = missed.first() {
        tracing::warn!(network = %first.network, count = missed.len(), "the second reading found payment events that the first had missed");
        let count = u64::try_from(missed.len()).unwrap_or(u64::MAX);
        metrics::counter!("prs_chain_audit_found_total", "network" => first.network.id()).increment(count);
    }
    missed
}

async fn requests_of(ctx: &Ctx, chain: &dyn Chain, candidates: &[Observation]) -> FlowResult<Vec<Request>> {
    let topics: HashSet<B256> = candidates.iter().map(|observed| observed.reference_topic).collect();
    let topics: Vec<B256> = topics.into_iter().collect();
    let mut requests = Vec::new();
    for chunk in topics.chunks(TOPICS_PER_LOOKUP) {
        requests.extend(store::requests::by_topics(ctx.db.reader(), chain.network(), chunk).await?);
    }
    Ok(requests)
}

async fn prove_matches(
    ctx: &Ctx,
    chain: &dyn Chain,
    candidates: &[Observation],
    requests: &[Request],
) -> Result<Vec<Match>, ConfirmError> {
    let mut by_topic: HashMap<B256, Vec<usize>> = HashMap::new();
    for (index, request) in requests.iter().enumerate() {
        by_topic.entry(request.reference.topic()).or_default().push(index);
    }
    let mut times: BTreeMap<u64, DateTime<Utc>> = BTreeMap::new();
    let mut matches = Vec::new();
    let mut ordered: Vec<&Observation> = candidates.iter().collect();
    ordered.sort_by_key(|observed| (observed.block_number, observed.log_index));
    for observed in ordered {
        let fitting = by_topic.get(&observed.reference_topic).into_iter().flatten();
        for index in fitting
            .copied()
            .filter(|index| requests[*index].matches(observed, &ctx.catalogue))
        {
            let outcome = match proven(ctx, chain, observed).await? {
                Ok((proof, transfer)) => {
                    let at = match times.get(&proof.block_number) {
                        Some(time) => *time,
                        None => block_time(chain, &proof).await?,
                    };
                    times.insert(proof.block_number, at);
                    let credited = observed.credit(transfer.received_units);
                    Ok(Settled {
                        observed: observed.clone(),
                        proven: transfer,
                        credited,
                        at,
                    })
                }
                Err(reason) => Err(reason),
            };
            matches.push(Match {
                observed: observed.clone(),
                request_row: index,
                outcome,
            });
        }
    }
    Ok(matches)
}

type Proven = (TxProof, ProvenTransfer);

/// Asks a second node for the receipt, and the first as well when the second cannot confirm the observation.
async fn proven(
    ctx: &Ctx,
    chain: &dyn Chain,
    observed: &Observation,
) -> Result<Result<Proven, Unproven>, ConfirmError> {
    let is_intermediary = |address: &Address| {
        let contracts = ctx.catalogue.contracts(chain.network());
        contracts
            .iter()
            .any(|contract| contract.address == *address && contract.kind.forwards_payments())
    };
    let judge = |proof: Option<TxProof>| match proof {
        Some(proof) => prove(observed, &proof, is_intermediary).map(|transfer| (proof, transfer)),
        None => Err(Unproven::Different),
    };
    let second = judge(chain.proof(observed.tx_hash, Witness::Second).await?);
    if !matches!(second, Err(Unproven::Different)) {
        return Ok(second);
    }
    // Either the observation was invented, or the second node is the liar: a receipt decides only if both agree.
    match judge(chain.proof(observed.tx_hash, Witness::First).await?) {
        Err(reason) => Ok(Err(reason)),
        Ok(_) => Err(ConfirmError::Disagreement(format!(
            "nodes show different receipts of transaction {} in a final block",
            observed.tx_hash
        ))),
    }
}

async fn block_time(chain: &dyn Chain, proof: &TxProof) -> FlowResult<DateTime<Utc>> {
    let block = chain.block(proof.block_number, Witness::Second).await?;
    let block = block
        .filter(|block| block.hash == proof.block_hash)
        .ok_or_else(|| ChainError::Malformed {
            network: chain.network(),
            reason: format!("block {} of a receipt is not part of the chain", proof.block_number),
        })?;
    Ok(block.time)
}

/// Writes everything in one transaction; `false` when a request changed meanwhile and nothing was written.
async fn commit(
    ctx: &Ctx,
    next: &Cursor,
    missed: &[Observation],
    mut requests: Vec<Request>,
    matches: Vec<Match>,
) -> FlowResult<bool> {
    let now = ctx.clock.now();
    let tx = ctx.db.begin("confirm_blocks").await?;
    store::observations::insert_many(&tx, missed, true, now).await?;
    for found in matches {
        let key = (found.observed.tx_hash, found.observed.ordinal);
        let settled = match found.outcome {
            Ok(settled) => settled,
            Err(reason) => {
                tracing::warn!(network = %next.network, tx_hash = %key.0, ?reason, "payment event was not credited");
                metrics::counter!("prs_payments_unproven_total", "network" => next.network.id()).increment(1);
                store::observations::set_state(&tx, next.network, &[key], ObservationState::Unproven).await?;
                continue;
            }
        };
        let request = &requests[found.request_row];
        let payment = SettledPayment {
            id: PaymentId(ctx.ids.ulid()),
            request,
            settled: &settled,
            created_at: now,
        };
        if !store::payments::insert_once(&tx, &payment).await? {
            continue;
        }
        crate::fail_at("confirm_blocks", "credited");
        let (ledger, told) = request.ledger.settle(settled.credited, settled.observed.tx_hash);
        if !store::requests::advance(&tx, request, &ledger, now).await? {
            return Ok(false);
        }
        store::observations::set_state(&tx, next.network, &[key], ObservationState::Credited).await?;
        requests[found.request_row].ledger = ledger;
        if let Some(settlement) = told {
            let request = requests[found.request_row].clone();
            let event = Event::PaymentReceived(Box::new(PaymentReceived::new(settlement, request, settled)));
            publish(ctx, &tx, &event).await?;
            for twin in event.twins(ctx.webhooks.scoped_variants) {
                publish(ctx, &tx, &twin).await?;
            }
        }
    }
    store::cursors::save(&tx, next).await?;
    tx.commit().await?;
    Ok(true)
}
