//! What the steps of one look at a network have in common.

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
        relay::{Account, ContractState, Relay, Sent},
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

/// Pause between two times that a transaction is handed to a node, which may have forgotten it.
const RESENDING: TimeDelta = TimeDelta::seconds(15);

/// Pause after something stood in the way that is no fault of the payer.
pub(super) const PASSING: TimeDelta = TimeDelta::seconds(30);

/// Time after which a transaction whose key is gone is given up: nobody can raise its price.
pub(super) const ORPHANED: TimeDelta = TimeDelta::hours(1);

/// Why nothing is signed while gas costs more than the settings allow.
pub(super) const TOO_DEAR: &str = "gas costs more than chains.<network>.relayer_max_fee_gwei allows";

/// What is said when the price cannot be what keeps a transaction out of blocks, or may not be raised.
pub(super) const NO_HIGHER: &str =
    "no block takes the first transaction in line, whose price may not be raised further";

/// When this instance handed each transaction to a node.
#[derive(Debug, Default)]
pub struct Sendings(Mutex<HashMap<B256, DateTime<Utc>>>);

impl Sendings {
    pub(super) fn is_due(&self, tx_hash: B256, now: DateTime<Utc>) -> bool {
        self.lock().get(&tx_hash).is_none_or(|sent| now - *sent >= RESENDING)
    }

    pub(super) fn note(&self, tx_hash: B256, now: DateTime<Utc>) {
        self.lock().insert(tx_hash, now);
    }

    /// Forgets all but those that are followed.
    pub(super) fn keep<'a>(&self, followed: impl IntoIterator<Item = &'a RelayTransaction>) {
        let bids = followed.into_iter().flat_map(|transaction| &transaction.bids);
        let kept: HashSet<B256> = bids.map(|bid| bid.tx_hash).collect();
        self.lock().retain(|tx_hash, _| kept.contains(tx_hash));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<B256, DateTime<Utc>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the steps of one look have in common.
pub(super) struct Round<'a> {
    pub(super) ctx: &'a Ctx,
    pub(super) relay: &'a dyn Relay,
    pub(super) chain: &'a dyn Chain,
    pub(super) leadership: &'a Leadership,
    pub(super) account: Account,
    /// Height up to which blocks were searched for payments.
    pub(super) settled: u64,
    pub(super) rules: BidRules,
    pub(super) now: DateTime<Utc>,
    pub(super) obstacles: Mutex<BTreeSet<String>>,
    /// What the transactions that are in no block may cost together.
    pub(super) reserved: Mutex<U256>,
    /// What contracts of recurring payments said about themselves, each asked once.
    pub(super) contracts: tokio::sync::Mutex<HashMap<Address, ContractState>>,
}

impl Round<'_> {
    /// What stands in the way of one schedule keeps no other one waiting.
    pub(super) fn go_on(&self, schedule: &ScheduleId, done: FlowResult<bool>) -> FlowResult<bool> {
        match done {
            Err(FlowError::NotYet(error)) if !self.leadership.ended().is_cancelled() => {
                tracing::debug!(%schedule, %error, "a payment is not possible yet");
                Ok(false)
            }
            Err(FlowError::Refused(error)) => {
                tracing::warn!(%schedule, %error, "a payment cannot be executed now");
                Ok(false)
            }
            Err(FlowError::Faulted(error)) => {
                tracing::error!(%schedule, %error, "a payment cannot be executed");
                Ok(false)
            }
            other => other,
        }
    }

    /// What a contract of recurring payments says about itself.
    pub(super) async fn contract(&self, contract: Address) -> FlowResult<ContractState> {
        let mut contracts = self.contracts.lock().await;
        if let Some(known) = contracts.get(&contract) {
            return Ok(*known);
        }
        let state = self.relay.contract(contract).await?;
        contracts.insert(contract, state);
        Ok(state)
    }

    /// Notes what stands in the way of payments.
    pub(super) fn note(&self, obstacle: &str) {
        let mut obstacles = self.obstacles.lock().unwrap_or_else(PoisonError::into_inner);
        obstacles.insert(obstacle.to_owned());
    }

    /// Notes it, for a payment that has to wait until it is gone.
    pub(super) fn waits_for(&self, obstacle: &str) -> FlowError {
        self.note(obstacle);
        FlowError::NotYet(anyhow!("{obstacle}"))
    }

    /// Sets the cost of one more transaction aside; `false` when the account cannot pay for it beside those in flight.
    pub(super) fn reserve(&self, cost: U256) -> bool {
        let mut reserved = self.reserved.lock().unwrap_or_else(PoisonError::into_inner);
        let sum = reserved.saturating_add(cost);
        let is_affordable = self.account.balance >= sum;
        if is_affordable {
            *reserved = sum;
        }
        is_affordable
    }

    /// Whether a transaction is of an account before, whose key is not there.
    pub(super) fn is_former(&self, transaction: &RelayTransaction) -> bool {
        transaction.relayer != self.relay.address()
    }

    /// Transactions in blocks of the account that signed one.
    pub(super) async fn counted(&self, transaction: &RelayTransaction) -> FlowResult<u64> {
        match self.is_former(transaction) {
            true => Ok(self.relay.counted(transaction.relayer).await?),
            false => Ok(self.account.nonce),
        }
    }

    /// The place of the next transaction.
    pub(super) async fn free_nonce(&self) -> FlowResult<u64> {
        let (network, account) = (self.chain.network(), self.relay.address());
        let free = store::relays::free_nonce(self.ctx.db.reader(), network, account, self.account.nonce);
        Ok(free.await?)
    }

    /// Hands a transaction to a node. Whatever that says, the transaction is looked for from now on, and handed over again.
    pub(super) async fn send(&self, tx_hash: B256, raw: &[u8], sendings: &Sendings) {
        crate::fail_at("relay", "before_send");
        let network = self.chain.network();
        match self.relay.send(raw).await {
            Ok(Sent::Accepted) => tracing::debug!(%network, %tx_hash, "a payment was sent"),
            Ok(Sent::Unaffordable) => {
                let account = self.relay.address();
                tracing::warn!(%network, %tx_hash, %account, "the relayer has too few coins for gas: send it some");
            }
            Ok(said @ (Sent::NonceUsed | Sent::Underpriced)) => {
                tracing::debug!(%network, %tx_hash, ?said, "a payment was not taken");
            }
            Err(error) => tracing::warn!(%network, %tx_hash, %error, "a payment could not be sent"),
        }
        crate::fail_at("relay", "after_send");
        sendings.note(tx_hash, self.now);
    }

    /// When one of several transactions paid a request; `None` while none of them did. Anybody who knows the reference can
    /// send something, and only what the contract of the schedule moved is an execution of it.
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
        let owner = Scope {
            platform: schedule.origin.platform.clone(),
            client: None,
        };
        let request = store::requests::find(conn, &owner, execution.request_id.as_str()).await?;
        let missing = || {
            Fault(anyhow!(
                "request {} of a recurring payment is not there",
                execution.request_id
            ))
        };
        let request = request.ok_or_else(missing)?;
        Ok(Some((execution, request)))
    }
}
