//! Executes the payments of a network's schedules: what is due becomes a request and a transaction, what is in flight is
//! followed until its block is final.
//!
//! Each step ends in a commit under the term of the leader, and begins from rows alone: a request before its
//! transaction, a signed transaction before it is sent. So it can end anywhere and go on anywhere else.
//! Source: ADR-0017.

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
use due::Rehearsed;
use futures_util::future::join_all;
use round::{PASSING, Round};
use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::{Mutex, PoisonError},
    time::Duration,
};

/// Schedules and transactions of one look.
const BATCH: u64 = 100;

/// Schedules of one owner in a look while those of others are due.
const OWNED_MAX: usize = 10;

/// Schedules whose payments are rehearsed at the same time.
const TOGETHER: usize = 8;

/// Time after which a look begins no further payments.
const LOOK_MAX: Duration = Duration::from_secs(2);

/// What one look found.
#[derive(Debug, Clone, Default)]
pub struct Look {
    /// Whether anything changed, so that there may be more to do.
    pub has_moved: bool,
    /// Transactions that are in no final block.
    pub pending: u32,
    /// Whether the payment of a schedule was begun.
    pub has_begun: bool,
    /// What stands in the way of payments and is no fault of their payers, in words for the operator.
    pub obstacles: BTreeSet<String>,
}

/// One look at what is in flight and what is due on a network.
///
/// Errors: the node or the database does not answer, or somebody else leads. What was committed before stays.
pub async fn run(
    ctx: &Ctx,
    relay: &dyn Relay,
    chain: &dyn Chain,
    leadership: &Leadership,
    sendings: &Sendings,
) -> FlowResult<Look> {
    let (network, now, conn) = (chain.network(), ctx.clock.now(), ctx.db.reader());
    let end = ctx.clock.steady() + LOOK_MAX;
    let cursor = store::cursors::load(conn, network).await?;
    let pending = store::relays::pending(conn, network, relay.address(), BATCH).await?;
    let mut former = Vec::new();
    for account in store::relays::former_accounts(conn, network, relay.address()).await? {
        former.extend(store::relays::pending(conn, network, account, BATCH).await?);
    }
    let mut look = Look {
        // A batch is far smaller.
        pending: u32::try_from(pending.len() + former.len()).unwrap_or(u32::MAX),
        ..Look::default()
    };
    // Nothing is paid while nobody knows what the chain says.
    let Some(cursor) = cursor.filter(|cursor| cursor.halted_reason.is_none()) else {
        return Ok(look);
    };
    let due = store::schedules::due(conn, network, now, BATCH).await?;
    if pending.is_empty() && former.is_empty() && due.is_empty() {
        return Ok(look);
    }
    let rules = ctx.schedules.bids.get(&network);
    let rules = *rules.ok_or_else(|| Fault(anyhow!("{network} has no highest price of gas")))?;
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
            "transactions of {account} are in flight, and its key is not relayer.private_key"
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
            // What became due meanwhile takes its turn in the next look.
            look.has_moved |= !left.is_empty();
            break;
        }
    }
    look.obstacles = round.obstacles.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(look)
}

/// Those of each owner that one look is for: while several owners wait, a few of each.
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

/// Begins the payments of schedules: they are rehearsed together and signed one after the other.
async fn begin_all(round: &Round<'_>, due: &[Schedule], sendings: &Sendings, look: &mut Look) -> FlowResult<()> {
    let rehearsals = join_all(due.iter().map(|schedule| due::rehearse(round, schedule))).await;
    let mut paying = HashSet::new();
    for (schedule, mut rehearsed) in due.iter().zip(rehearsals) {
        // What a payer's payment before it leaves may not be enough for the next one.
        if matches!(rehearsed, Ok(Rehearsed::Ready(_))) && !paying.insert(schedule.permit.subscriber) {
            rehearsed = due::rehearse(round, schedule).await;
        }
        let begun = match rehearsed {
            Ok(Rehearsed::Ready(ready)) => due::sign(round, schedule, *ready, sendings).await,
            Ok(Rehearsed::Ended(has_moved)) => Ok(has_moved),
            Err(error) => Err(error),
        };
        // An instance that no longer leads leaves the payment to the one that does.
        if let Err(error) = &begun
            && !round.leadership.ended().is_cancelled()
        {
            tracing::debug!(schedule = %schedule.id, %error, "a payment is put off");
            store::schedules::postpone(round.ctx.db.writer(), schedule, round.now + PASSING).await?;
        }
        let has_begun = round.go_on(&schedule.id, begun)?;
        look.has_begun |= has_begun;
        look.has_moved |= has_begun;
    }
    Ok(())
}

/// For how long the payment that is due the longest waits to be executed, which cannot be before it was asked for. One that
/// failed for its payer is left out, and one that is in flight.
pub async fn oldest_due(ctx: &Ctx, network: Network) -> FlowResult<TimeDelta> {
    let oldest = store::schedules::oldest(ctx.db.reader(), network).await?;
    let due_at = oldest.and_then(|oldest| Some(oldest.due_at(oldest.next_number()?).max(oldest.created_at)));
    Ok(due_at.map_or(TimeDelta::zero(), |due_at| {
        (ctx.clock.now() - due_at).max(TimeDelta::zero())
    }))
}
