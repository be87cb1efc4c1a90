//! Blocks: the id of a block, and the tree of its transactions.

use super::{StoredCall, sha256, wire::MessageWriter};
use crate::domain::wire_text::wire_text;
use alloy::primitives::{B256, Bytes};
use sha2::{Digest, Sha256};

/// The header of a block (`BlockHeader.raw`), without its signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TronHeader {
    /// Unix time of the block.
    pub timestamp_ms: u64,
    /// Root of the tree of the transactions; zero for a block without transactions.
    pub transactions_root: B256,
    /// Id of the parent.
    pub parent_id: B256,
    /// Block number.
    pub number: u64,
    /// `witness_id`; 0 in every header that is known to us.
    pub witness_id: u64,
    /// `witness_address` of the producer.
    pub witness_address: Bytes,
    /// Version of the block.
    pub version: u32,
    /// `accountStateRoot`; empty in every header that is known to us.
    pub account_state_root: Bytes,
}

impl TronHeader {
    /// The id of the block: the block number in eight bytes, then bytes 8 to 31 of the hash of the header.
    pub fn block_id(&self) -> B256 {
        let mut id = sha256(&self.encode());
        for (byte, number) in id.iter_mut().zip(self.number.to_be_bytes()) {
            *byte = number;
        }
        id
    }

    fn encode(&self) -> Vec<u8> {
        let mut header = MessageWriter::default();
        header.write_integer(1, self.timestamp_ms);
        // Only an empty byte string is left out, so a root of 32 zero bytes is written.
        header.write_bytes(2, self.transactions_root.as_slice());
        header.write_bytes(3, self.parent_id.as_slice());
        header.write_integer(7, self.number);
        header.write_integer(8, self.witness_id);
        header.write_bytes(9, &self.witness_address);
        header.write_integer(10, self.version.into());
        header.write_bytes(11, &self.account_state_root);
        header.into_bytes()
    }
}

wire_text! {
    /// How the execution of a transaction ended (`contractRet`). The texts are those of a node.
    #[derive(Default)]
    pub enum ContractResult {
        /// None.
        #[default]
        Default = "DEFAULT",
        /// The call succeeded.
        Success = "SUCCESS",
        /// The contract reverted.
        Revert = "REVERT",
        /// The contract jumped to an invalid position.
        BadJumpDestination = "BAD_JUMP_DESTINATION",
        /// The contract used too much memory.
        OutOfMemory = "OUT_OF_MEMORY",
        /// A precompiled contract failed.
        PrecompiledContract = "PRECOMPILED_CONTRACT",
        /// The stack had too few values.
        StackTooSmall = "STACK_TOO_SMALL",
        /// The stack had too many values.
        StackTooLarge = "STACK_TOO_LARGE",
        /// The contract used an operation that is not allowed.
        IllegalOperation = "ILLEGAL_OPERATION",
        /// The stack overflowed.
        StackOverflow = "STACK_OVERFLOW",
        /// The call needed more energy than the fee limit pays for.
        OutOfEnergy = "OUT_OF_ENERGY",
        /// The call needed more time than the chain allows.
        OutOfTime = "OUT_OF_TIME",
        /// The stack of the node itself overflowed.
        JvmStackOverFlow = "JVM_STACK_OVER_FLOW",
        /// The call failed in another way.
        Unknown = "UNKNOWN",
        /// A transfer of the contract failed.
        TransferFailed = "TRANSFER_FAILED",
        /// The created contract has invalid code.
        InvalidCode = "INVALID_CODE",
    }
}

impl ContractResult {
    /// The number in the encoding. The variants are declared in the order of their numbers, which start at 0.
    const fn number(self) -> u64 {
        self as u64
    }
}

/// A match of an order on the exchange of the chain (`MarketOrderDetail`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MarketOrderDetail {
    /// `makerOrderId`.
    pub maker_order_id: Bytes,
    /// `takerOrderId`.
    pub taker_order_id: Bytes,
    /// `fillSellQuantity`.
    pub sold_quantity: u64,
    /// `fillBuyQuantity`.
    pub bought_quantity: u64,
}

impl MarketOrderDetail {
    fn encode(&self) -> Vec<u8> {
        let mut detail = MessageWriter::default();
        detail.write_bytes(1, &self.maker_order_id);
        detail.write_bytes(2, &self.taker_order_id);
        detail.write_integer(3, self.sold_quantity);
        detail.write_integer(4, self.bought_quantity);
        detail.into_bytes()
    }
}

/// The result of a transaction that its block contains (`Transaction.Result`). Amounts are in the smallest unit.
///
/// Fields that a node does not mention have the default value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TransactionResult {
    /// `fee`.
    pub fee: u64,
    /// `ret`: whether it is `FAILED`.
    pub is_failed: bool,
    /// `contractRet`.
    pub contract_result: ContractResult,
    /// `assetIssueID`.
    pub asset_issue_id: String,
    /// `withdraw_amount`.
    pub withdraw_amount: u64,
    /// `unfreeze_amount`.
    pub unfreeze_amount: u64,
    /// `exchange_received_amount`.
    pub exchange_received_amount: u64,
    /// `exchange_inject_another_amount`.
    pub exchange_inject_another_amount: u64,
    /// `exchange_withdraw_another_amount`.
    pub exchange_withdraw_another_amount: u64,
    /// `exchange_id`.
    pub exchange_id: u64,
    /// `shielded_transaction_fee`.
    pub shielded_transaction_fee: u64,
    /// `orderId`.
    pub order_id: Bytes,
    /// `orderDetails`, in their order.
    pub order_details: Vec<MarketOrderDetail>,
    /// `withdraw_expire_amount`.
    pub withdraw_expire_amount: u64,
    /// `cancel_unfreezeV2_amount`: resources with their amounts, in the order in which the node lists them.
    pub cancelled_unfreezes: Vec<(String, u64)>,
}

impl TransactionResult {
    fn encode(&self) -> Vec<u8> {
        let mut result = MessageWriter::default();
        result.write_integer(1, self.fee);
        result.write_integer(2, self.is_failed.into());
        result.write_integer(3, self.contract_result.number());
        result.write_bytes(14, self.asset_issue_id.as_bytes());
        result.write_integer(15, self.withdraw_amount);
        result.write_integer(16, self.unfreeze_amount);
        result.write_integer(18, self.exchange_received_amount);
        result.write_integer(19, self.exchange_inject_another_amount);
        result.write_integer(20, self.exchange_withdraw_another_amount);
        result.write_integer(21, self.exchange_id);
        result.write_integer(22, self.shielded_transaction_fee);
        result.write_bytes(25, &self.order_id);
        for detail in &self.order_details {
            result.write_present_bytes(26, &detail.encode());
        }
        result.write_integer(27, self.withdraw_expire_amount);
        for (resource, amount) in &self.cancelled_unfreezes {
            // An entry of a map contains its key and its value, even if they are empty and zero.
            let mut entry = MessageWriter::default();
            entry.write_present_bytes(1, resource.as_bytes());
            entry.write_present_integer(2, *amount);
            result.write_present_bytes(28, &entry.into_bytes());
        }
        result.into_bytes()
    }
}

/// A transaction of any type in a block (`Transaction`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredTransaction {
    /// Encoded `Transaction.raw`.
    pub raw_data: Bytes,
    /// Signatures, in their order.
    pub signatures: Vec<Bytes>,
    /// Results; a transaction of one contract has one.
    pub results: Vec<TransactionResult>,
}

impl StoredTransaction {
    /// The id of the transaction. It does not depend on the signatures and results.
    pub fn tx_id(&self) -> B256 {
        sha256(&self.raw_data)
    }

    /// What the transaction does; `None` if it names no owner.
    pub fn read_call(&self) -> Option<StoredCall> {
        StoredCall::read(&self.raw_data)
    }

    /// The leaf of the transaction in the tree of its block. It depends on the signatures and results.
    pub fn leaf(&self) -> B256 {
        let mut transaction = MessageWriter::default();
        transaction.write_present_bytes(1, &self.raw_data);
        for signature in &self.signatures {
            transaction.write_present_bytes(2, signature);
        }
        for result in &self.results {
            transaction.write_present_bytes(5, &result.encode());
        }
        sha256(&transaction.into_bytes())
    }
}

/// The root of the tree over the leaves of all transactions of a block, in their order.
///
/// The parent of two nodes is their common hash. A last node without a neighbour moves up unchanged. The root of one
/// leaf is the leaf, and the root of no leaves is zero.
pub fn transactions_root(leaves: &[B256]) -> B256 {
    let mut level = leaves.to_vec();
    while level.len() > 1 {
        let (pairs, last) = level.as_chunks::<2>();
        level = pairs.iter().map(hash_pair).chain(last.iter().copied()).collect();
    }
    level.first().copied().unwrap_or_default()
}

fn hash_pair([left, right]: &[B256; 2]) -> B256 {
    let hash = Sha256::new().chain_update(left).chain_update(right).finalize();
    B256::new(hash.into())
}

#[cfg(test)]
mod tests;
