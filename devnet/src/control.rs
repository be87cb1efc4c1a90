//! What a test or a demonstration does to the chain: pay, read, mine, and rewrite history.

use std::time::Duration;

use alloy::{
    eips::BlockNumberOrTag,
    primitives::{Address, B256, U256},
    rpc::types::{Filter, Log, TransactionReceipt},
    sol,
    sol_types::SolCall as _,
};
use anyhow::{Context as _, bail};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::Devnet;

/// Enough for a call of a single payment, and far below what a transaction may ask for. A stated limit lets a failing
/// transaction be mined as failed, where an estimate would refuse to send it.
const GAS_LIMIT: u64 = 5_000_000;
/// Enough for each byte of a call that holds many payments.
const GAS_FOR_EACH_BYTE: u64 = 300;
/// What a transaction may ask for.
const GAS_LIMIT_MAX: u64 = 16_777_216;
const RECEIPT_TIMEOUT: Duration = Duration::from_secs(30);
const RECEIPT_POLL_INTERVAL: Duration = Duration::from_millis(3);

sol! {
    interface Token {
        function balanceOf(address holder) external view returns (uint256);
        function approve(address spender, uint256 amount) external;
        function transfer(address to, uint256 amount) external;
        function mint(address to, uint256 amount) external;
    }
}

/// What became of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TxReceiptLite {
    /// The transaction's hash.
    pub tx_hash: B256,
    /// The number of the block that holds it.
    pub block_number: u64,
    /// The hash of the block that holds it.
    pub block_hash: B256,
    /// Whether it took effect; a reverted transaction did not.
    pub status: bool,
}

/// A block without its transactions' contents.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Block {
    /// The height.
    #[serde(with = "alloy::serde::quantity")]
    pub number: u64,
    /// The hash.
    pub hash: B256,
    /// The hash of the block below.
    pub parent_hash: B256,
    /// Seconds since the epoch, as the chain counts them.
    #[serde(with = "alloy::serde::quantity")]
    pub timestamp: u64,
    /// The hashes of the transactions, in order.
    pub transactions: Vec<B256>,
}

/// A transaction that the rewritten history holds.
#[derive(Clone, Debug)]
pub enum ReorgTransaction {
    /// A signed transaction, such as one that the old history held too; see [`Devnet::raw_transaction`].
    Raw(Vec<u8>),
    /// A transaction that one of the accounts has not sent before.
    Request {
        /// The sender's index among the accounts.
        from_index: usize,
        /// Whom it calls.
        to: Address,
        /// With what.
        call: Vec<u8>,
        /// The native amount that goes along.
        value: U256,
    },
}

impl Devnet {
    /// Calls any method of the node.
    pub async fn rpc(&self, method: &str, params: Value) -> anyhow::Result<Value> {
        self.rpc.call(method, params).await
    }

    /// Sends a transaction and waits until it is mined, successful or not.
    pub async fn send(
        &self,
        from_index: usize,
        to: Address,
        call: Vec<u8>,
        value: U256,
    ) -> anyhow::Result<TxReceiptLite> {
        let hash = self.send_without_waiting(from_index, to, call, value).await?;
        self.wait_for_receipt(hash).await
    }

    /// Sends a transaction into the pool and gives its hash.
    pub async fn send_without_waiting(
        &self,
        from_index: usize,
        to: Address,
        call: Vec<u8>,
        value: U256,
    ) -> anyhow::Result<B256> {
        let transaction = self.transaction(from_index, to, &call, value)?;
        parsed(self.rpc("eth_sendTransaction", json!([transaction])).await?)
    }

    /// Sends transactions one after the other, each when the one before is mined. This is what a payer does with the
    /// calls that the service hands out: approvals first, then the payment.
    pub async fn pay(
        &self,
        from_index: usize,
        transactions: &[(Address, Vec<u8>, U256)],
    ) -> anyhow::Result<Vec<TxReceiptLite>> {
        let mut receipts = Vec::with_capacity(transactions.len());
        for (to, call, value) in transactions {
            receipts.push(self.send(from_index, *to, call.clone(), *value).await?);
        }
        Ok(receipts)
    }

    /// Waits until a transaction is mined; half a minute at most.
    pub async fn wait_for_receipt(&self, tx_hash: B256) -> anyhow::Result<TxReceiptLite> {
        let deadline = Instant::now() + RECEIPT_TIMEOUT;
        loop {
            if let Some(receipt) = self.receipt(tx_hash).await? {
                return Ok(TxReceiptLite {
                    tx_hash,
                    block_number: receipt.block_number.context("a receipt without block number")?,
                    block_hash: receipt.block_hash.context("a receipt without block hash")?,
                    status: receipt.status(),
                });
            }
            if Instant::now() >= deadline {
                bail!(
                    "transaction {tx_hash} was not mined within {} s",
                    RECEIPT_TIMEOUT.as_secs()
                );
            }
            sleep(RECEIPT_POLL_INTERVAL).await;
        }
    }

    /// The full receipt, with logs; `None` while the transaction is not part of the chain.
    pub async fn receipt(&self, tx_hash: B256) -> anyhow::Result<Option<TransactionReceipt>> {
        parsed(self.rpc("eth_getTransactionReceipt", json!([tx_hash])).await?)
    }

    /// The signed bytes of a transaction, for instance to send them again after a reorganization.
    pub async fn raw_transaction(&self, tx_hash: B256) -> anyhow::Result<Vec<u8>> {
        let raw: String = parsed(self.rpc("eth_getRawTransactionByHash", json!([tx_hash])).await?)?;
        Ok(hex::decode(raw)?)
    }

    /// Runs a call without a transaction. A revert is an [`RpcError`](crate::RpcError) with the revert bytes.
    pub async fn call(&self, from_index: usize, to: Address, call: Vec<u8>, value: U256) -> anyhow::Result<Vec<u8>> {
        let transaction = self.transaction(from_index, to, &call, value)?;
        let result: String = parsed(self.rpc("eth_call", json!([transaction, "latest"])).await?)?;
        Ok(hex::decode(result)?)
    }

    /// The logs that match a filter.
    pub async fn logs(&self, filter: &Filter) -> anyhow::Result<Vec<Log>> {
        parsed(self.rpc("eth_getLogs", json!([filter])).await?)
    }

    /// A block by number or tag; `None` if there is none yet.
    pub async fn block(&self, which: impl Into<BlockNumberOrTag>) -> anyhow::Result<Option<Block>> {
        parsed(self.rpc("eth_getBlockByNumber", json!([which.into(), false])).await?)
    }

    /// The height of the chain.
    pub async fn block_number(&self) -> anyhow::Result<u64> {
        let number: U256 = parsed(self.rpc("eth_blockNumber", json!([])).await?)?;
        Ok(number.try_into()?)
    }

    /// Produces blocks now.
    pub async fn mine(&self, count: u64) -> anyhow::Result<()> {
        self.rpc("anvil_mine", json!([format!("{count:#x}")])).await.map(drop)
    }

    /// Whether every transaction gets a block at once. Switched off, transactions wait for [`mine`](Self::mine).
    pub async fn set_automine(&self, on: bool) -> anyhow::Result<()> {
        self.rpc("evm_setAutomine", json!([on])).await.map(drop)
    }

    /// Moves the chain's clock forward and mines a block, so that the head shows the new time.
    pub async fn increase_time(&self, seconds: u64) -> anyhow::Result<()> {
        self.rpc("evm_increaseTime", json!([seconds])).await?;
        self.mine(1).await
    }

    /// Replaces the newest `depth` blocks by empty ones; their transactions are gone.
    pub async fn reorg(&self, depth: u64) -> anyhow::Result<()> {
        self.reorg_with(depth, Vec::new()).await
    }

    /// Replaces the newest `depth` blocks by others that hold the given transactions, each in the block at its offset
    /// from the first replaced one.
    pub async fn reorg_with(&self, depth: u64, transactions: Vec<(ReorgTransaction, u64)>) -> anyhow::Result<()> {
        let mut pairs = Vec::with_capacity(transactions.len());
        for (transaction, offset) in transactions {
            let transaction = match transaction {
                ReorgTransaction::Raw(raw) => json!(hex::encode_prefixed(raw)),
                ReorgTransaction::Request {
                    from_index,
                    to,
                    call,
                    value,
                } => self.transaction(from_index, to, &call, value)?,
            };
            pairs.push(json!([transaction, offset]));
        }
        self.rpc("anvil_reorg", json!([depth, pairs])).await.map(drop)
    }

    /// Takes the newest `depth` blocks away, so that the chain is shorter afterwards.
    pub async fn rollback(&self, depth: u64) -> anyhow::Result<()> {
        self.rpc("anvil_rollback", json!([depth])).await.map(drop)
    }

    /// Remembers the chain as it is.
    pub async fn snapshot(&self) -> anyhow::Result<U256> {
        parsed(self.rpc("evm_snapshot", json!([])).await?)
    }

    /// Goes back to a snapshot, which is used up by that.
    pub async fn revert(&self, snapshot: U256) -> anyhow::Result<()> {
        if self.rpc("evm_revert", json!([snapshot])).await? != true {
            bail!("there is no snapshot {snapshot}");
        }
        Ok(())
    }

    /// Removes a transaction from the pool.
    pub async fn drop_transaction(&self, tx_hash: B256) -> anyhow::Result<()> {
        if self.rpc("anvil_dropTransaction", json!([tx_hash])).await?.is_null() {
            bail!("transaction {tx_hash} is not in the pool");
        }
        Ok(())
    }

    /// How much of a token somebody holds.
    pub async fn balance_of(&self, token: Address, holder: Address) -> anyhow::Result<U256> {
        let result = self
            .call(0, token, Token::balanceOfCall { holder }.abi_encode(), U256::ZERO)
            .await?;
        Ok(Token::balanceOfCall::abi_decode_returns(&result)?)
    }

    /// How much of the native coin somebody holds.
    pub async fn native_balance_of(&self, holder: Address) -> anyhow::Result<U256> {
        parsed(self.rpc("eth_getBalance", json!([holder, "latest"])).await?)
    }

    /// Gives somebody a token. USDT cannot be created, so it comes from the first account.
    pub async fn mint(&self, token: Address, to: Address, amount: U256) -> anyhow::Result<TxReceiptLite> {
        if token == self.tokens().usdt {
            return self.transfer(0, token, to, amount).await;
        }
        self.send(0, token, Token::mintCall { to, amount }.abi_encode(), U256::ZERO)
            .await
    }

    /// Sends a token without any proxy, as a payer does who ignores the instructions.
    pub async fn transfer(
        &self,
        from_index: usize,
        token: Address,
        to: Address,
        amount: U256,
    ) -> anyhow::Result<TxReceiptLite> {
        self.send(
            from_index,
            token,
            Token::transferCall { to, amount }.abi_encode(),
            U256::ZERO,
        )
        .await
    }

    /// Lets a contract spend a token.
    pub async fn approve(
        &self,
        from_index: usize,
        token: Address,
        spender: Address,
        amount: U256,
    ) -> anyhow::Result<TxReceiptLite> {
        self.send(
            from_index,
            token,
            Token::approveCall { spender, amount }.abi_encode(),
            U256::ZERO,
        )
        .await
    }

    fn transaction(&self, from_index: usize, to: Address, call: &[u8], value: U256) -> anyhow::Result<Value> {
        let from = self
            .accounts()
            .get(from_index)
            .with_context(|| format!("there is no account {from_index}"))?;
        let gas = GAS_FOR_EACH_BYTE * u64::try_from(call.len())?;
        let gas = gas.clamp(GAS_LIMIT, GAS_LIMIT_MAX);
        Ok(json!({
            "from": from.address,
            "to": to,
            "input": hex::encode_prefixed(call),
            "value": value,
            "gas": format!("{gas:#x}"),
        }))
    }
}

fn parsed<T: for<'de> Deserialize<'de>>(answer: Value) -> anyhow::Result<T> {
    let text = answer.to_string();
    serde_json::from_value(answer).with_context(|| format!("the node answered {text:.200}"))
}
