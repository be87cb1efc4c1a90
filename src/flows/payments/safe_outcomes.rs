//! Follows the transactions of Safes that lock a link, until they are executed or their deadline passes.
//!
//! The events of a Safe only show where to look. A proven transaction ends a lock; a missing event proves nothing, so
//! nothing happens without one until the deadline.

use crate::{
    ctx::Ctx,
    domain::{
        event::{ChainTransaction, Event, PaymentFailed},
        network::Network,
        proven_tx::ProvenTx,
        request::Request,
        safe::{OUTCOME_TOPICS, SafeCall, SafeOutcome, executed_calls, outcome_in},
        secure_payment::{
            SecurePayment,
            intent::{IntentState, PaymentIntent},
        },
    },
    flows::{FlowError, FlowResult, publish_all},
    ports::chain::{Chain, ChainError, Emitter, ReportedEmissions, TxProofs},
    store::{self, Scope, safe_payers::AwaitedExecution},
};
use alloy::primitives::{Address as EvmAddress, B256};
use chrono::{DateTime, TimeDelta, Utc};
use std::collections::HashMap;

/// Maximum number of executions that are searched on a network at once.
const SEARCHED_AT_ONCE: u64 = 25;

/// Maximum number of transactions that one pass proves.
const PROVEN_AT_ONCE: usize = 10;

/// How long after its deadline an execution is searched in blocks that nodes do not show completely.
const GIVEN_UP_AFTER: TimeDelta = TimeDelta::hours(24);

/// Code of the failure in `payment.failed`.
const FAILED: &str = "safe_execution_failed";

/// Searches the executions that Safes owe on a chain, in the blocks that were settled as final.
///
/// The search for an execution ends without a result once both the clock and a searched block are past the deadline:
/// the clock may be fast, and nodes may not respond. A day later, the search ends in any case: nodes may never agree
/// on the answers of a contract that calls itself a Safe, and the end proves nothing.
pub async fn run(ctx: &Ctx, chain: &dyn Chain) -> FlowResult<()> {
    let network = chain.network();
    let reader = ctx.db.reader();
    let awaited = store::safe_payers::awaited(reader, network, SEARCHED_AT_ONCE).await?;
    let Some(proofs) = ctx.partners.chains.proofs.get(&network).filter(|_| !awaited.is_empty()) else {
        return Ok(());
    };
    let Some(cursor) = store::cursors::load(reader, network).await? else {
        return Ok(());
    };
    let final_to = cursor.finalized.number;
    let (mut searched, mut complete) = (Vec::new(), Vec::new());
    let given_up_before = ctx.clock.earliest() - GIVEN_UP_AFTER;
    for awaited in awaited {
        let is_given_up = awaited.intent.deadline.is_some_and(|end| end < given_up_before);
        match emitter(&awaited, final_to).filter(|_| !is_given_up) {
            Some(emitter) => searched.push((awaited, emitter)),
            None => complete.push(awaited),
        }
    }
    let found = search(ctx, proofs.as_ref(), searched, final_to).await;
    let found = found.map(|reached| complete.extend(reached));
    end_passed(ctx, chain, complete, final_to).await?;
    found
}

/// Searches executions, and ends the locks of those that it finds. Returns the others that were searched completely up to
/// the block at `final_to`.
async fn search(
    ctx: &Ctx,
    proofs: &dyn TxProofs,
    searched: Vec<(AwaitedExecution, Emitter)>,
    final_to: u64,
) -> FlowResult<Vec<AwaitedExecution>> {
    let emitters: Vec<Emitter> = searched.iter().map(|(_, emitter)| *emitter).collect();
    if emitters.is_empty() {
        return Ok(Vec::new());
    }
    let reported = match proofs.list_emissions(&emitters, &OUTCOME_TOPICS, final_to).await {
        Ok(reported) => reported,
        Err(error) => {
            // The next pass then searches other executions first. Otherwise these would block all others.
            for (awaited, _) in &searched {
                store::safe_payers::note_searched(ctx.db.writer(), awaited, None, ctx.clock.now()).await?;
            }
            return Err(error.into());
        }
    };
    let mut proofs = PassProofs {
        proofs,
        final_to,
        known: HashMap::new(),
    };
    let mut reached = Vec::new();
    for ((awaited, emitter), reported) in searched.into_iter().zip(reported) {
        match follow(ctx, &mut proofs, &awaited, emitter, &reported).await {
            Ok(true) => reached.push(awaited),
            Ok(false) => {}
            Err(error) => skip_failed(ctx, &awaited, error).await?,
        }
    }
    Ok(reached)
}

/// Logs that one report could not be processed, and continues with the others. Errors: the database does not respond.
async fn skip_failed(ctx: &Ctx, awaited: &AwaitedExecution, error: FlowError) -> FlowResult<()> {
    tracing::error!(report = awaited.intent.id.as_str(), %error, "the execution of a Safe could not be processed");
    Ok(store::safe_payers::note_searched(ctx.db.writer(), awaited, None, ctx.clock.now()).await?)
}

/// Ends the reports whose deadline lies before the final block at `final_to`.
async fn end_passed(ctx: &Ctx, chain: &dyn Chain, mut awaited: Vec<AwaitedExecution>, final_to: u64) -> FlowResult<()> {
    let is_before =
        |awaited: &AwaitedExecution, time: DateTime<Utc>| awaited.intent.deadline.is_none_or(|end| end < time);
    let now = ctx.clock.earliest();
    awaited.retain(|awaited| is_before(awaited, now));
    if awaited.is_empty() {
        return Ok(());
    }
    let reached = chain.agreed(final_to).await?.time;
    for awaited in awaited.iter().filter(|awaited| is_before(awaited, reached)) {
        if let Err(error) = conclude(ctx, awaited, IntentState::DeadlinePassed, None).await {
            skip_failed(ctx, awaited, error).await?;
        }
    }
    Ok(())
}

/// The Safe of a report, with the blocks that are still to be searched.
fn emitter(awaited: &AwaitedExecution, final_to: u64) -> Option<Emitter> {
    // A report from before the first final block of the network has no height, so its search begins at the newest one.
    let from = awaited.intent.searched_to.map_or(final_to, |height| height + 1);
    let contract = awaited.intent.payer?;
    (from <= final_to).then_some(Emitter {
        contract,
        mark: awaited.intent.hash,
        from,
    })
}

/// The proofs of one pass. Strangers choose the Safes and nodes name the transactions, so their number is limited.
struct PassProofs<'a> {
    proofs: &'a dyn TxProofs,
    final_to: u64,
    known: HashMap<B256, Option<ProvenTx>>,
}

impl PassProofs<'_> {
    /// A proven transaction; `Ok(None)` if no node knows it. Errors: a later pass has to prove it.
    async fn find(&mut self, tx_hash: B256) -> Result<Option<ProvenTx>, PassError> {
        if let Some(known) = self.known.get(&tx_hash) {
            return Ok(known.clone());
        }
        if self.known.len() >= PROVEN_AT_ONCE {
            return Err(PassError::Full);
        }
        let proven = self.proofs.proven(tx_hash, self.final_to).await?;
        self.known.insert(tx_hash, proven.clone());
        Ok(proven)
    }
}

/// Why a transaction is not proven in this pass.
#[derive(Debug, thiserror::Error)]
enum PassError {
    /// Enough transactions were proven.
    #[error("other transactions of this pass come first")]
    Full,
    /// The nodes prove nothing now.
    #[error(transparent)]
    Chain(#[from] ChainError),
}

/// Proves the reported transactions of one Safe, and ends its lock if one of them is the execution. Returns whether there
/// is none up to the last final block.
async fn follow(
    ctx: &Ctx,
    proofs: &mut PassProofs<'_>,
    awaited: &AwaitedExecution,
    emitter: Emitter,
    reported: &ReportedEmissions,
) -> FlowResult<bool> {
    let (safe, hash) = (emitter.contract, awaited.intent.hash);
    let mut is_complete = true;
    for tx_hash in &reported.tx_hashes {
        match proofs.find(*tx_hash).await {
            Ok(Some(proven)) => match outcome_in(&proven, &safe, &hash) {
                Some(SafeOutcome::Executed) => {
                    conclude(ctx, awaited, IntentState::Executed, Some((&proven, Vec::new()))).await?;
                    return Ok(false);
                }
                Some(SafeOutcome::Failed) => {
                    if let Some(calls) = calls(ctx, awaited, &proven).await {
                        conclude(ctx, awaited, IntentState::Failed, Some((&proven, calls))).await?;
                        return Ok(false);
                    }
                    is_complete = false;
                }
                None => {}
            },
            Ok(None) => {}
            Err(error) => {
                is_complete = false;
                tracing::warn!(safe = %safe, %error, "the execution of a Safe could not be proven");
            }
        }
    }
    let read_to = reported.read_to.filter(|_| is_complete);
    let (writer, now) = (ctx.db.writer(), ctx.clock.now());
    store::safe_payers::note_searched(writer, awaited, read_to, now).await?;
    Ok(read_to == Some(proofs.final_to))
}

/// The calls of a failed transaction of a Safe; empty when its hash does not prove them, or when the account has no nonce
/// and is therefore no Safe. `None` when the nodes do not agree on the nonce: the caller has to try again.
async fn calls(ctx: &Ctx, awaited: &AwaitedExecution, proven: &ProvenTx) -> Option<Vec<SafeCall>> {
    let network = awaited.intent.source.network;
    let (Some(safe), Some(wallets)) = (awaited.intent.payer, ctx.partners.chains.wallets.get(&network)) else {
        return Some(Vec::new());
    };
    let next_nonce = match wallets.safe_nonce(safe).await {
        Ok(nonce) => nonce,
        Err(ChainError::Reverted(_)) => return Some(Vec::new()),
        Err(error) => {
            tracing::warn!(%network, safe = %safe, %error, "the nonce of a Safe could not be read");
            return None;
        }
    };
    let calls = executed_calls(proven, &safe, network.chain_id(), &awaited.intent.hash, next_nonce);
    Some(calls.unwrap_or_default())
}

/// Ends the wait for an execution and the lock of the link. If the failed calls contain a payment of the link, an event
/// reports the failure.
async fn conclude(
    ctx: &Ctx,
    awaited: &AwaitedExecution,
    state: IntentState,
    execution: Option<(&ProvenTx, Vec<SafeCall>)>,
) -> FlowResult<()> {
    let now = ctx.clock.now();
    let tx = ctx.db.begin("end_safe_lock").await?;
    let Some(payment) = store::secure_payments::lock_one(&tx, &awaited.platform, &awaited.payment).await? else {
        return Ok(());
    };
    let known = &awaited.intent;
    let found = store::secure_payments::find_intent(&tx, &payment, known.source.network, &known.hash).await?;
    // Another instance may have ended it, and a repeated report may have extended the deadline.
    let is_same = |found: &PaymentIntent| found.state == known.state && found.deadline == known.deadline;
    let Some(found) = found.filter(is_same) else {
        return Ok(());
    };
    let ended = PaymentIntent {
        state,
        executed_by: execution.as_ref().map(|(proven, _)| proven.tx_hash),
        ..found
    };
    store::secure_payments::set_intent(&tx, &payment, &ended).await?;
    crate::fail_at("end_safe_lock", "ended");
    // After a deadline, the Safe may still execute, so the lock stays as a warning.
    let lock = payment.lock.as_ref().filter(|_| state != IntentState::DeadlinePassed);
    if lock.is_some_and(|lock| lock.safe_tx_hash == known.hash) {
        let unlocked = SecurePayment {
            lock: None,
            hinted_at: store::secure_payments::last_sent_at(&tx, &payment).await?,
            ..payment.clone()
        };
        store::secure_payments::set_lock(&tx, &unlocked).await?;
    }
    if let Some((proven, calls)) = execution.filter(|_| payment.payable_at(now).is_ok()) {
        let owner = Scope::of_platform(&payment.origin.platform);
        let ids: Vec<String> = payment.items.iter().map(|item| item.request_id.0.clone()).collect();
        let requests = store::requests::find_all(&tx, &owner, &ids).await?;
        let contracts: Vec<EvmAddress> = ctx
            .catalogue
            .contracts(payment.network)
            .iter()
            .map(|contract| contract.address.bytes())
            .collect();
        let is_paid_by = |request: &&Request| {
            let payee = request.terms.payee.map(|payee| payee.bytes());
            let pays = |call: &SafeCall| payee.is_some_and(|payee| call.pays(&contracts, request.reference, payee));
            request.payable().is_ok() && calls.iter().any(pays)
        };
        // The failure of this transaction is stored above and counts.
        let failures = store::secure_payments::count_failed(&tx, &payment).await?;
        let execution = u32::try_from(failures).unwrap_or(u32::MAX);
        let mut failed: Vec<&Request> = requests.values().filter(is_paid_by).collect();
        failed.sort_by(|one, other| one.row.cmp(&other.row));
        let events: Vec<Event> = failed
            .into_iter()
            .map(|request| failure(request, payment.network, proven, execution))
            .collect();
        publish_all(ctx, &tx, &events).await?;
    }
    tx.commit().await?;
    ctx.due.notify_one();
    Ok(())
}

fn failure(request: &Request, network: Network, proven: &ProvenTx, execution: u32) -> Event {
    Event::PaymentFailed(Box::new(PaymentFailed {
        request: request.clone(),
        reason: FAILED.to_owned(),
        message: Some("The Safe executed the transaction, and its calls failed".to_owned()),
        execution,
        recurring_payment: None,
        transaction: Some(ChainTransaction {
            network,
            hash: proven.tx_hash.to_string(),
        }),
        at: proven.block.time,
    }))
}
