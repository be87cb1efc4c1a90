//! Transactions and receipts from a node, and their encoding for the roots of a block.

use crate::{
    adapters::nodes::{proven::UnprovenContent, wire::RawLog},
    domain::network::Network,
};
use alloy::{
    consensus::{EthereumTxEnvelope, Transaction as _, TxEip4844, transaction::SignerRecoverable as _},
    eips::Encodable2718 as _,
    primitives::{Address, B256, Bloom, Bytes, TxKind, U64, U256},
    rlp::{Encodable, Header as RlpHeader},
};
use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::value::RawValue;

/// Transaction types of Ethereum: legacy, access list, dynamic fee, blob and delegation.
///
/// Source: EIP-2718; EIP-2930; EIP-1559; EIP-4844; EIP-7702.
const ETHEREUM_TYPES: std::ops::RangeInclusive<u8> = 0..=4;

/// Type of a deposit transaction of the OP stack. Source: ADR-0012.
const DEPOSIT_TYPE: u8 = 0x7e;

/// Stated position and content of a transaction.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct StatedTransaction {
    /// Hash.
    pub(super) hash: B256,
    /// Hash of its block.
    pub(super) block_hash: Option<B256>,
    /// Height of its block.
    pub(super) block_number: Option<U64>,
    /// Index in its block.
    pub(super) transaction_index: Option<U64>,
    /// Sender.
    pub(super) from: Address,
    /// Called contract.
    pub(super) to: Option<Address>,
    /// Units of the native coin that it sends.
    pub(super) value: U256,
    /// Call data.
    pub(super) input: Bytes,
    /// Type.
    #[serde(rename = "type", default)]
    pub(super) kind: U64,
}

/// A transaction from a node. Only its hash is parsed, because all other fields depend on its type.
#[derive(Debug)]
pub(super) struct RawTransaction {
    /// Its text.
    pub(super) raw: Box<RawValue>,
    /// Its hash.
    pub(super) hash: B256,
}

/// A receipt from a node. Only the hash of its transaction is parsed.
#[derive(Debug)]
pub(super) struct RawReceipt {
    /// Its text.
    pub(super) raw: Box<RawValue>,
    /// Hash of the transaction.
    pub(super) tx_hash: B256,
}

/// Minimum average number of characters per value of a transaction. Real transactions have more. A response of many
/// small values would take far more memory when parsed than its length suggests.
const CHARACTERS_PER_VALUE_MIN: usize = 16;

/// Number of additional values that a transaction may have, more than any transaction type has members.
const ORDINARY_VALUES: usize = 64;

impl<'de> Deserialize<'de> for RawTransaction {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct StatedHash {
            hash: B256,
        }
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        let values = raw
            .get()
            .bytes()
            .filter(|byte| matches!(byte, b',' | b'[' | b'{'))
            .count();
        if values > ORDINARY_VALUES + raw.get().len() / CHARACTERS_PER_VALUE_MIN {
            return Err(D::Error::custom("a transaction contains too many JSON values"));
        }
        let StatedHash { hash } = serde_json::from_str(raw.get()).map_err(D::Error::custom)?;
        Ok(Self { raw, hash })
    }
}

impl<'de> Deserialize<'de> for RawReceipt {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct StatedBlockHash {
            transaction_hash: B256,
        }
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        let stated: StatedBlockHash = serde_json::from_str(raw.get()).map_err(D::Error::custom)?;
        Ok(Self {
            raw,
            tx_hash: stated.transaction_hash,
        })
    }
}

/// A receipt, with the fields that the root covers or that locate its events.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct StatedReceipt {
    /// Transaction.
    pub(super) transaction_hash: B256,
    /// Index of the transaction in its block.
    pub(super) transaction_index: U64,
    /// Hash of the block.
    pub(super) block_hash: B256,
    /// Height of the block.
    pub(super) block_number: U64,
    /// Sender.
    pub(super) from: Address,
    /// Called contract.
    pub(super) to: Option<Address>,
    /// Type of the transaction.
    #[serde(rename = "type", default)]
    pub(super) kind: U64,
    /// 1 for success.
    pub(super) status: U64,
    /// Cumulative gas of the block.
    pub(super) cumulative_gas_used: U64,
    /// Bloom filter of addresses and topics.
    pub(super) logs_bloom: Bloom,
    /// Events.
    pub(super) logs: Vec<RawLog>,
    /// Nonce of the sender of a deposit.
    deposit_nonce: Option<U64>,
    /// Version of the deposit receipt. Present only if the receipts root covers the nonce of the deposit.
    deposit_receipt_version: Option<U64>,
}

/// A decoded transaction.
#[derive(Debug)]
pub(super) enum EncodedTransaction {
    /// Signed by its sender.
    Signed(Box<EthereumTxEnvelope<TxEip4844>>),
    /// A transaction that the protocol adds to the block; it states its own sender.
    Deposit(RollupDeposit),
}

/// A deposit transaction of the OP stack; the fields are in the order of the encoding. Source: ADR-0012.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RollupDeposit {
    source_hash: B256,
    from: Address,
    #[serde(deserialize_with = "called")]
    to: TxKind,
    /// An absent value and 0 have the same encoding.
    mint: Option<U256>,
    value: U256,
    #[serde(rename = "gas")]
    gas_limit: U64,
    is_system_tx: Option<bool>,
    input: Bytes,
}

fn called<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<TxKind, D::Error> {
    Ok(Option::<Address>::deserialize(deserializer)?.map_or(TxKind::Create, TxKind::Call))
}

/// Parses a part of a response. The parser's message may quote the response, so only the name of the part is passed on.
pub(super) fn read<'a, T: Deserialize<'a>>(raw: &'a RawValue, what: &str) -> Result<T, UnprovenContent> {
    serde_json::from_str(raw.get()).map_err(|error| {
        let text = error.to_string();
        let text = text.split_once(" at line").map_or(text.as_str(), |(text, _)| text);
        let missing = text.strip_prefix("missing field").map(|field| format!(" lacks{field}"));
        UnprovenContent::Untrue(format!(
            "{what}{}",
            missing.unwrap_or_else(|| " has an unexpected structure".to_owned())
        ))
    })
}

impl EncodedTransaction {
    /// Reads the fields that the hash of a transaction covers.
    pub(super) fn of(raw: &RawValue, stated: &StatedTransaction, network: Network) -> Result<Self, UnprovenContent> {
        let what = || format!("transaction {}", stated.hash);
        match (stated.kind.saturating_to::<u8>(), network) {
            (kind, _) if ETHEREUM_TYPES.contains(&kind) => Ok(Self::Signed(Box::new(read(raw, &what())?))),
            (DEPOSIT_TYPE, Network::Optimism | Network::Base) => Ok(Self::Deposit(read(raw, &what())?)),
            (kind, _) => Err(UnprovenContent::Unknown(format!(
                "{} has the unknown type {kind:#04x}, so its hash cannot be recomputed",
                what()
            ))),
        }
    }

    /// The bytes of the transaction under the transactions root. Their hash is the hash of the transaction. Source:
    /// EIP-2718.
    pub(super) fn encoded(&self) -> Vec<u8> {
        match self {
            Self::Signed(envelope) => envelope.encoded_2718(),
            Self::Deposit(deposit) => {
                let mut members = Vec::new();
                deposit.source_hash.encode(&mut members);
                deposit.from.encode(&mut members);
                deposit.to.encode(&mut members);
                deposit.mint.unwrap_or_default().encode(&mut members);
                deposit.value.encode(&mut members);
                deposit.gas_limit.encode(&mut members);
                deposit.is_system_tx.unwrap_or_default().encode(&mut members);
                deposit.input.encode(&mut members);
                let mut bytes = vec![DEPOSIT_TYPE];
                list(&members, &mut bytes);
                bytes
            }
        }
    }

    /// The sender, recovered from the signature if there is one. Recovery takes longer than all other steps of a proof.
    pub(super) fn sender(&self) -> Result<Address, UnprovenContent> {
        match self {
            Self::Signed(envelope) => envelope
                .recover_signer()
                .map_err(|_| UnprovenContent::Untrue("the signature of a transaction is not valid".to_owned())),
            Self::Deposit(deposit) => Ok(deposit.from),
        }
    }

    /// Called contract; `None` when the transaction creates a contract.
    pub(super) fn to(&self) -> Option<Address> {
        match self {
            Self::Signed(envelope) => envelope.to(),
            Self::Deposit(deposit) => deposit.to.to().copied(),
        }
    }
}

/// Prefixes the members with the list header.
fn list(members: &[u8], out: &mut Vec<u8>) {
    let header = RlpHeader {
        list: true,
        payload_length: members.len(),
    };
    header.encode(out);
    out.extend_from_slice(members);
}

impl StatedReceipt {
    /// Whether the transaction succeeded.
    pub(super) fn succeeded(&self) -> Result<bool, UnprovenContent> {
        match self.status.to::<u64>() {
            0 => Ok(false),
            1 => Ok(true),
            status => Err(UnprovenContent::Untrue(format!(
                "the receipt of {} has status {status}",
                self.transaction_hash
            ))),
        }
    }

    /// The bytes under the receipts root.
    ///
    /// Source: EIP-658; EIP-2718; ADR-0012 (deposits).
    pub(super) fn encoded(&self) -> Vec<u8> {
        let mut members = Vec::new();
        (self.status == U64::ONE).encode(&mut members);
        self.cumulative_gas_used.encode(&mut members);
        self.logs_bloom.encode(&mut members);
        let (mut logs, mut parts) = (Vec::new(), Vec::new());
        for log in &self.logs {
            parts.clear();
            log.address.encode(&mut parts);
            log.topics.encode(&mut parts);
            log.data.encode(&mut parts);
            list(&parts, &mut logs);
        }
        list(&logs, &mut members);
        let kind: u8 = self.kind.saturating_to();
        if let (DEPOSIT_TYPE, Some(nonce), Some(version)) = (kind, self.deposit_nonce, self.deposit_receipt_version) {
            nonce.encode(&mut members);
            version.encode(&mut members);
        }
        // A receipt of a legacy transaction has no byte for its type.
        let mut bytes = if kind == 0 { Vec::new() } else { vec![kind] };
        list(&members, &mut bytes);
        bytes
    }
}
