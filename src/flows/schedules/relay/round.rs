//! Shared state of the steps of one pass over a network.

use crate::{
    ctx::Ctx,
    domain::{
        address::Address,
        ids::ScheduleId,
        relay::{BidRules, RelayTransaction},
        request::Request,
        schedule::{Execution, Schedule},
    },
    flows::{Fault, FlowError, FlowResult, payments::lead::Leadership},
    ports::{
        chain::Chain,
        relay::{ContractState, Relay, RelayAccount, SendResult},
    },
    store::{self, Scope},
};
use alloy::primitives::{B256, U256};
use anyhow::anyhow;
use chrono::{DateTime, TimeDelta, Utc};
use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Pause before a transaction is sent to a node again, because the node may have dropped it.
const RESENDING: TimeDelta = TimeDelta::seconds(15);

/// Pause after an obstacle that the payer did not cause.
pub(super) const PASSING: TimeDelta = TimeDelta::seconds(30);

/// Time after which a transaction of a previous account is abandoned: without the key, the service cannot raise its
/// price.
pub(super) const ORPHANED: TimeDelta = TimeDelta::hours(1);

/// Message for the operator while gas costs more than the settings allow.
pub(super) const TOO_DEAR: &str = "gas costs more than chains.<network>.relayer_max_fee_gwei allows";

/// Message for the operator when a transaction is stuck, and a higher gas price would not help or is not allowed.
pub(super) const NO_HIGHER: &str =
    "the first pending transaction is in no block, and its gas price must not be raised further";

/// When this instance last sent each transaction to a node.
#[derive(Debug, Default)]
pub struct Sendings(Mutex<HashMap<B256, DateTime<Utc>>>);

impl Sendings {
    pub(super) fn is_due(&self, tx_hash: B256, now: DateTime<Utc>) -> bool {
        self.lock().get(&tx_hash).is_none_or(|sent| now - *sent >= RESENDING)
    }

    pub(super) fn note(&self, tx_hash: B256, now: DateTime<Utc>) {
        self.lock().insert(tx_hash, now);
    }

    /// Keeps only the times of transactions that are still followed.
    pub(super) fn keep<'a>(&self, followed: impl IntoIterator<Item = &'a RelayTransaction>) {
        let bids = followed.into_iter().flat_map(|transaction| &transaction.bids);
        let kept: HashSet<B256> = bids.map(|bid| bid.tx_hash).collect();
        self.lock().retain(|tx_hash, _| kept.contains(tx_hash));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<B256, DateTime<Utc>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Shared state of the steps of one pass.
pub(super) struct Round<'a> {
    pub(super) ctx: &'a Ctx,
    pub(super) relay: &'a dyn Relay,
    pub(super) chain: &'a dyn Chain,
    pub(super) leadership: &'a Leadership,
    pub(super) account: RelayAccount,
    /// Height up to which blocks were searched for payments.
    pub(super) settled: u64,
    pub(super) rules: BidRules,
    pub(super) now: DateTime<Utc>,
    pub(super) obstacles: Mutex<BTreeSet<String>>,
    /// Maximum gas cost, in coins of the account, of all transactions that are not in a block yet.
    pub(super) reserved: Mutex<U256>,
    /// States of recurring payment contracts, each queried once.
    pub(super) contracts: tokio::sync::Mutex<HashMap<Address, ContractState>>,
}

impl Round<'_> {
    /// Logs the error of one schedule and returns `false` instead, so that the pass continues with the other schedules.
    /// Errors that concern all schedules are returned.
    pub(super) fn go_on(&self, schedule: &ScheduleId, done: FlowResult<bool>) -> FlowResult<bool> {
        match done {
            Err(FlowError::NotYet(error)) if !self.leadership.ended().is_cancelled() => {
                tracing::debug!(%schedule, %error, "a recurring payment is not possible yet");
                Ok(false)
            }
            Err(FlowError::Refused(error)) => {
                tracing::warn!(%schedule, %error, "a recurring payment cannot be executed now");
                Ok(false)
            }
            Err(FlowError::Faulted(error)) => {
                tracing::error!(%schedule, %error, "a recurring payment cannot be executed until the operator fixes this error");
                Ok(false)
            }
            other => other,
        }
    }

    /// The state of a recurring payment contract.
    pub(super) async fn contract(&self, contract: Address) -> FlowResult<ContractState> {
        let mut contracts = self.contracts.lock().await;
        if let Some(known) = contracts.get(&contract) {
            return Ok(*known);
        }
        let state = self.relay.contract(contract).await?;
        contracts.insert(contract, state);
        Ok(state)
    }

    /// Records an obstacle to payments.
    pub(super) fn note(&self, obstacle: &str) {
        let mut obstacles = self.obstacles.lock().unwrap_or_else(PoisonError::into_inner);
        obstacles.insert(obstacle.to_owned());
    }

    /// Records an obstacle, and returns the error for the payment that the obstacle delays.
    pub(super) fn waits_for(&self, obstacle: &str) -> FlowError {
        self.note(obstacle);
        FlowError::NotYet(anyhow!("{obstacle}"))
    }

    /// Reserves the cost of one more transaction. `false` when the balance of the account does not cover the new
    /// transaction together with the transactions in flight.
    pub(super) fn reserve(&self, cost: U256) -> bool {
        let mut reserved = self.reserved.lock().unwrap_or_else(PoisonError::into_inner);
        let sum = reserved.saturating_add(cost);
        let is_affordable = self.account.balance >= sum;
        if is_affordable {
            *reserved = sum;
        }
        is_affordable
    }

    /// Whether a transaction is from a previous account, whose key is missing.
    pub(super) fn is_former(&self, transaction: &RelayTransaction) -> bool {
        transaction.relayer != self.relay.address()
    }

    /// Number of mined transactions of the account that signed a transaction.
    pub(super) async fn counted(&self, transaction: &RelayTransaction) -> FlowResult<u64> {
        if self.is_former(transaction) {
            Ok(self.relay.counted(transaction.relayer).await?)
        } else {
            Ok(self.account.nonce)
        }
    }

    /// The nonce of the next transaction.
    pub(super) async fn free_nonce(&self) -> FlowResult<u64> {
        let (network, account) = (self.chain.network(), self.relay.address());
        let free = store::relays::free_nonce(self.ctx.db.reader(), network, account, self.account.nonce);
        Ok(free.await?)
    }

    /// Sends a transaction to a node. Regardless of the response, the transaction is followed from now on and sent
    /// again.
    pub(super) async fn send(&self, tx_hash: B256, raw: &[u8], sendings: &Sendings) {
        crate::fail_at("relay", "before_send");
        let network = self.chain.network();
        match self.relay.send(raw).await {
            Ok(SendResult::Accepted) => tracing::debug!(%network, %tx_hash, "a recurring payment was sent"),
            Ok(SendResult::Unaffordable) => {
                let account = self.relay.address();
                tracing::warn!(%network, %tx_hash, %account, "the relayer has too few coins for gas: fund its account");
            }
            Ok(said @ (SendResult::NonceUsed | SendResult::Underpriced)) => {
                tracing::debug!(%network, %tx_hash, ?said, "the node did not accept a recurring payment");
            }
            Err(error) => tracing::warn!(%network, %tx_hash, %error, "a recurring payment could not be sent"),
        }
        crate::fail_at("relay", "after_send");
        sendings.note(tx_hash, self.now);
    }

    /// Time at which one of the given transactions paid a request; `None` while none of them did. Other transactions do
    /// not count, because anyone who knows the reference can send a payment.
    pub(super) async fn paid_at(&self, request: &Request, tx_hashes: &[B256]) -> FlowResult<Option<DateTime<Utc>>> {
        if request.ledger.payment_count == 0 || tx_hashes.is_empty() {
            return Ok(None);
        }
        let own = store::payments::find_in_transactions(self.ctx.db.reader(), request, tx_hashes).await?;
        Ok(own.map(|payment| payment.paid_at))
    }

    /// An execution and the request that it pays.
    pub(super) async fn execution(&self, schedule: &Schedule, number: u8) -> FlowResult<Option<(Execution, Request)>> {
        let conn = self.ctx.db.reader();
        let Some(execution) = store::schedules::find_execution(conn, schedule, number).await? else {
            return Ok(None);
        };
        let owner = Scope::of_platform(&schedule.origin.platform);
        let request = store::requests::find(conn, &owner, execution.request_id.as_str()).await?;
        let missing = || {
            Fault(anyhow!(
                "request {} of a recurring payment is missing",
                execution.request_id
            ))
        };
        let request = request.ok_or_else(missing)?;
        Ok(Some((execution, request)))
    }
}
