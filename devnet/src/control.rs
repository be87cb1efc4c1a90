//! Controls the chain for tests and demonstrations: pays, reads, mines, and rewrites history.

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

/// Gas limit of a call with a single payment, far below the limit of a transaction. Because the limit is explicit, a
/// failing transaction is mined as failed; an estimate would refuse to send it.
const GAS_LIMIT: u64 = 5_000_000;
/// Gas for each byte of a call with several payments, which is more than enough.
const GAS_FOR_EACH_BYTE: u64 = 300;
/// Gas limit of a transaction.
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

/// Result of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TxReceiptLite {
    /// The transaction's hash.
    pub tx_hash: B256,
    /// The number of its block.
    pub block_number: u64,
    /// The hash of its block.
    pub block_hash: B256,
    /// Whether the transaction succeeded; false if it was reverted.
    pub status: bool,
}

/// A block without the contents of its transactions.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Block {
    /// The height.
    #[serde(with = "alloy::serde::quantity")]
    pub number: u64,
    /// The hash.
    pub hash: B256,
    /// The hash of the parent block.
    pub parent_hash: B256,
    /// Timestamp in seconds since the epoch, by the chain's clock.
    #[serde(with = "alloy::serde::quantity")]
    pub timestamp: u64,
    /// The hashes of the transactions, in order.
    pub transactions: Vec<B256>,
}

/// A transaction for one of the new blocks of a reorganisation.
#[derive(Clone, Debug)]
pub enum ReorgTransaction {
    /// A signed transaction, such as one of a replaced block; see [`Devnet::raw_transaction`].
    Raw(Vec<u8>),
    /// A new transaction of one of the accounts.
    Request {
        /// The sender's index among the accounts.
        from_index: usize,
        /// The recipient.
        to: Address,
        /// The calldata.
        call: Vec<u8>,
        /// The native amount.
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

    /// Sends a transaction to the pool and returns its hash.
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

    /// Sends transactions one after another, each once the previous one is mined. A payer does this with the calls that
    /// the service returns: approvals first, then the payment.
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
                    block_number: receipt.block_number.context("the receipt has no block number")?,
                    block_hash: receipt.block_hash.context("the receipt has no block hash")?,
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

    /// The full receipt, with logs; `None` while the transaction is not in a block.
    pub async fn receipt(&self, tx_hash: B256) -> anyhow::Result<Option<TransactionReceipt>> {
        parsed(self.rpc("eth_getTransactionReceipt", json!([tx_hash])).await?)
    }

    /// The signed bytes of a transaction, for example to send them again after a reorganization.
    pub async fn raw_transaction(&self, tx_hash: B256) -> anyhow::Result<Vec<u8>> {
        let raw: String = parsed(self.rpc("eth_getRawTransactionByHash", json!([tx_hash])).await?)?;
        Ok(hex::decode(raw)?)
    }

    /// Executes a call without a transaction. A revert is an [`RpcError`](crate::RpcError) with the revert bytes.
    pub async fn call(&self, from_index: usize, to: Address, call: Vec<u8>, value: U256) -> anyhow::Result<Vec<u8>> {
        let transaction = self.transaction(from_index, to, &call, value)?;
        let result: String = parsed(self.rpc("eth_call", json!([transaction, "latest"])).await?)?;
        Ok(hex::decode(result)?)
    }

    /// The logs that match a filter.
    pub async fn logs(&self, filter: &Filter) -> anyhow::Result<Vec<Log>> {
        parsed(self.rpc("eth_getLogs", json!([filter])).await?)
    }

    /// A block by number or tag; `None` if it does not exist yet.
    pub async fn block(&self, which: impl Into<BlockNumberOrTag>) -> anyhow::Result<Option<Block>> {
        parsed(self.rpc("eth_getBlockByNumber", json!([which.into(), false])).await?)
    }

    /// The height of the chain.
    pub async fn block_number(&self) -> anyhow::Result<u64> {
        let number: U256 = parsed(self.rpc("eth_blockNumber", json!([])).await?)?;
        Ok(number.try_into()?)
    }

    /// Mines blocks now.
    pub async fn mine(&self, count: u64) -> anyhow::Result<()> {
        self.rpc("anvil_mine", json!([format!("{count:#x}")])).await.map(drop)
    }

    /// Whether every transaction gets a block at once. If not, transactions wait for [`mine`](Self::mine).
    pub async fn set_automine(&self, on: bool) -> anyhow::Result<()> {
        self.rpc("evm_setAutomine", json!([on])).await.map(drop)
    }

    /// Moves the chain's clock forward and mines a block, so that the head shows the new time.
    pub async fn increase_time(&self, seconds: u64) -> anyhow::Result<()> {
        self.rpc("evm_increaseTime", json!([seconds])).await?;
        self.mine(1).await
    }

    /// Replaces the newest `depth` blocks with empty ones, so that their transactions leave the chain.
    pub async fn reorg(&self, depth: u64) -> anyhow::Result<()> {
        self.reorg_with(depth, Vec::new()).await
    }

    /// Replaces the newest `depth` blocks. Each given transaction has an offset: offset 0 puts it into the first new
    /// block.
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

    /// Removes the newest `depth` blocks, so that the chain is shorter afterwards.
    pub async fn rollback(&self, depth: u64) -> anyhow::Result<()> {
        self.rpc("anvil_rollback", json!([depth])).await.map(drop)
    }

    /// Takes a snapshot of the chain.
    pub async fn snapshot(&self) -> anyhow::Result<U256> {
        parsed(self.rpc("evm_snapshot", json!([])).await?)
    }

    /// Returns the chain to a snapshot, which can be used only once.
    pub async fn revert(&self, snapshot: U256) -> anyhow::Result<()> {
        if self.rpc("evm_revert", json!([snapshot])).await? != true {
            bail!("snapshot {snapshot} does not exist");
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

    /// The token balance of an address.
    pub async fn balance_of(&self, token: Address, holder: Address) -> anyhow::Result<U256> {
        let result = self
            .call(0, token, Token::balanceOfCall { holder }.abi_encode(), U256::ZERO)
            .await?;
        Ok(Token::balanceOfCall::abi_decode_returns(&result)?)
    }

    /// The native balance of an address.
    pub async fn native_balance_of(&self, holder: Address) -> anyhow::Result<U256> {
        parsed(self.rpc("eth_getBalance", json!([holder, "latest"])).await?)
    }

    /// Gives an address tokens. USDT cannot be minted, so the first account sends some of its own.
    pub async fn mint(&self, token: Address, to: Address, amount: U256) -> anyhow::Result<TxReceiptLite> {
        if token == self.tokens().usdt {
            return self.transfer(0, token, to, amount).await;
        }
        self.send(0, token, Token::mintCall { to, amount }.abi_encode(), U256::ZERO)
            .await
    }

    /// Sends a token directly, without a payment contract, as a payer does who ignores the instructions.
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

    /// Approves a contract to spend a token.
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
            .with_context(|| format!("account {from_index} does not exist"))?;
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
    serde_json::from_value(answer).with_context(|| format!("the node returned {text:.200}"))
}
