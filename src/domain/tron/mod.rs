//! Encodings and hashes of Tron: transactions that call a contract, ids of blocks, and the tree of the transactions of
//! a block.
//!
//! The messages are those of `core/Tron.proto` and `core/contract/smart_contract.proto` in the repository
//! tronprotocol/protocol. All hashes are SHA-256. The integers of the messages have the type `int64`, so a node reads a
//! value above `i64::MAX` as negative.

mod block;
mod signed;
mod signer;
mod transaction;
mod wire;

pub use block::{
    ContractResult, MarketOrderDetail, StoredTransaction, TransactionResult, TronHeader, transactions_root,
};
pub use signed::encode_signed;
pub use signer::recover_signer;
pub use transaction::{ReferenceBlock, StoredCall, TronCall, TronDecodeError, TronTransaction};

use alloy::primitives::B256;
use sha2::{Digest, Sha256};

fn sha256(bytes: &[u8]) -> B256 {
    B256::new(Sha256::digest(bytes).into())
}
