//! Executes the recurring payments of a network. A due payment becomes a request and a transaction, and the transaction
//! is followed until its block is final.
//!
//! Each step ends in a commit under the term of the leader, and starts only from stored rows. A request is stored
//! before its transaction is signed, and a signed transaction before it is sent. So a run can stop at any point and
//! continue on another instance. Source: ADR-0017.

mod counts;
mod due;
mod flight;
mod gap;
mod outcome;
mod round;

pub use round::Sendings;

use crate::{
    ctx::Ctx,
    domain::{ids::PlatformId, network::Network, relay::RelayTransaction, schedule::Schedule},
    flows::{Fault, FlowResult, payments::lead::Leadership},
    ports::{chain::Chain, relay::Relay},
    store,
};
use alloy::primitives::U256;
use anyhow::anyhow;
use chrono::TimeDelta;
use due::RehearsedPayment;
use futures_util::future::join_all;
use round::{PASSING, Round};
use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::{Mutex, PoisonError},
    time::Duration,
};

/// Maximum number of schedules and transactions of one pass.
const BATCH: u64 = 100;

/// Maximum number of schedules of one owner in a pass while other owners have due schedules.
const OWNED_MAX: usize = 10;

/// Maximum number of payments that are simulated concurrently.
const TOGETHER: usize = 8;

/// Time after which a pass starts no further payments.
const LOOK_MAX: Duration = Duration::from_secs(2);

/// Result of one pass.
#[derive(Debug, Clone, Default)]
pub struct RelayProgress {
    /// Whether anything changed, so that there may be more to do.
    pub has_moved: bool,
    /// Number of transactions that are not in a final block.
    pub pending: u32,
    /// Whether the payment of a schedule was started.
    pub has_begun: bool,
    /// Obstacles that payers did not cause, as messages for the operator.
    pub obstacles: BTreeSet<String>,
}

/// One pass over transactions in flight and due payments on a network.
///
/// Errors: the node or the database does not respond, or another instance leads. Earlier commits stay.
pub async fn run(
    ctx: &Ctx,
    relay: &dyn Relay,
    chain: &dyn Chain,
    leadership: &Leadership,
    sendings: &Sendings,
) -> FlowResult<RelayProgress> {
    let (network, now, conn) = (chain.network(), ctx.clock.now(), ctx.db.reader());
    let end = ctx.clock.steady() + LOOK_MAX;
    let cursor = store::cursors::load(conn, network).await?;
    let pending = store::relays::pending(conn, network, relay.address(), BATCH).await?;
    let mut former = Vec::new();
    for account in store::relays::former_accounts(conn, network, relay.address()).await? {
        former.extend(store::relays::pending(conn, network, account, BATCH).await?);
    }
    let mut look = RelayProgress {
        // The conversion cannot fail: the numbers are at most a few batches.
        pending: u32::try_from(pending.len() + former.len()).unwrap_or(u32::MAX),
        ..RelayProgress::default()
    };
    // Nothing is paid while the state of the chain is unknown.
    let Some(cursor) = cursor.filter(|cursor| cursor.halted_reason.is_none()) else {
        return Ok(look);
    };
    let due = store::schedules::due(conn, network, now, BATCH).await?;
    if pending.is_empty() && former.is_empty() && due.is_empty() {
        return Ok(look);
    }
    let rules = ctx.schedules.bids.get(&network);
    let rules = *rules.ok_or_else(|| Fault(anyhow!("{network} has no maximum gas price")))?;
    let account = relay.account().await?;
    let in_no_block = pending.iter().filter(|transaction| transaction.nonce >= account.nonce);
    let reserved = in_no_block
        .map(RelayTransaction::cost)
        .fold(U256::ZERO, U256::saturating_add);
    let round = Round {
        ctx,
        relay,
        chain,
        leadership,
        account,
        settled: cursor.finalized.number,
        rules,
        now,
        obstacles: Mutex::default(),
        reserved: Mutex::new(reserved),
        contracts: tokio::sync::Mutex::default(),
    };
    for transaction in &former {
        let account = transaction.relayer;
        round.note(&format!(
            "transactions of {account} are in flight, but relayer.private_key is the key of another account"
        ));
    }
    sendings.keep(pending.iter().chain(&former));
    if gap::close(&round, &pending, sendings).await? {
        look.has_moved = true;
        return Ok(look);
    }
    for transaction in pending.iter().chain(&former) {
        let followed = flight::follow(&round, transaction, sendings).await;
        look.has_moved |= round.go_on(&transaction.schedule, followed)?;
    }
    let mut left = shared(due);
    while !left.is_empty() {
        let together: Vec<Schedule> = left.drain(..left.len().min(TOGETHER)).collect();
        begin_all(&round, &together, sendings, &mut look).await?;
        if ctx.clock.steady() >= end {
            // The time of this pass is used up. The remaining due payments are started in the next pass.
            look.has_moved |= !left.is_empty();
            break;
        }
    }
    look.obstacles = round.obstacles.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(look)
}

/// The due schedules that one pass handles. If several owners have due schedules, each owner gets at most
/// [`OWNED_MAX`].
fn shared(mut due: Vec<Schedule>) -> Vec<Schedule> {
    let mut counts: HashMap<PlatformId, usize> = HashMap::new();
    let owners: HashSet<&PlatformId> = due.iter().map(|schedule| &schedule.origin.platform).collect();
    let are_several = owners.len() > 1;
    if are_several {
        due.retain(|schedule| {
            let count = counts.entry(schedule.origin.platform.clone()).or_default();
            *count += 1;
            *count <= OWNED_MAX
        });
    }
    due
}

/// Starts the payments of schedules: simulates them concurrently and signs them one after the other.
async fn begin_all(
    round: &Round<'_>,
    due: &[Schedule],
    sendings: &Sendings,
    look: &mut RelayProgress,
) -> FlowResult<()> {
    let rehearsals = join_all(due.iter().map(|schedule| due::rehearse(round, schedule))).await;
    let mut paying = HashSet::new();
    for (schedule, mut rehearsed) in due.iter().zip(rehearsals) {
        // A payer with two due payments may have a balance for only one of them. So the second payment is simulated
        // again after the first one was sent.
        if matches!(rehearsed, Ok(RehearsedPayment::Ready(_))) && !paying.insert(schedule.permit.subscriber) {
            rehearsed = due::rehearse(round, schedule).await;
        }
        let begun = match rehearsed {
            Ok(RehearsedPayment::Ready(ready)) => due::sign(round, schedule, *ready, sendings).await,
            Ok(RehearsedPayment::Ended(has_moved)) => Ok(has_moved),
            Err(error) => Err(error),
        };
        // An instance that no longer leads leaves the payment to the new leader.
        if let Err(error) = &begun
            && !round.leadership.ended().is_cancelled()
        {
            tracing::debug!(schedule = %schedule.id, %error, "a recurring payment is postponed");
            store::schedules::postpone(round.ctx.db.writer(), schedule, round.now + PASSING).await?;
        }
        let has_begun = round.go_on(&schedule.id, begun)?;
        look.has_begun |= has_begun;
        look.has_moved |= has_begun;
    }
    Ok(())
}

/// Waiting time of the oldest due payment, counted at the earliest from the creation of its schedule. Payments in
/// flight, and payments that failed because of their payer, are not included.
pub async fn oldest_due(ctx: &Ctx, network: Network) -> FlowResult<TimeDelta> {
    let oldest = store::schedules::oldest(ctx.db.reader(), network).await?;
    let due_at = oldest.and_then(|oldest| Some(oldest.due_at(oldest.next_number()?).max(oldest.created_at)));
    Ok(due_at.map_or(TimeDelta::zero(), |due_at| {
        (ctx.clock.now() - due_at).max(TimeDelta::zero())
    }))
}
