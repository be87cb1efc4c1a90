//! Blocks and results of transactions in the form of the HTTP API. Only the fields that the service uses are read.
//!
//! The API leaves out fields that are zero or empty, and answers `{}` for an unknown block.

use crate::{
    adapters::nodes::{node::NodeFailure, proven::ProvenHeader, wire::RawLog},
    domain::tron::{ContractResult, MarketOrderDetail, StoredTransaction, TransactionResult, TronHeader},
};
use alloy::primitives::{Address as EvmAddress, B256, Bytes, U64};
use serde::{
    Deserialize, Deserializer,
    de::{Error as _, SeqAccess, Visitor},
};
use serde_json::{Map, Value};
use std::{fmt, marker::PhantomData};

/// A block, with or without its transactions.
#[derive(Debug, Deserialize)]
pub(super) struct StatedTronBlock {
    #[serde(rename = "blockID", default, deserialize_with = "optional_hex")]
    block_id: Option<B256>,
    block_header: Option<StatedTronHeader>,
    /// Its transactions.
    #[serde(default)]
    pub(super) transactions: Vec<StatedTronTransaction>,
}

#[derive(Debug, Deserialize)]
struct StatedTronHeader {
    raw_data: RawTronHeader,
}

#[derive(Debug, Deserialize)]
struct RawTronHeader {
    #[serde(default)]
    timestamp: u64,
    #[serde(rename = "txTrieRoot", deserialize_with = "hex")]
    transactions_root: B256,
    #[serde(rename = "parentHash", deserialize_with = "hex")]
    parent_id: B256,
    #[serde(default)]
    number: u64,
    #[serde(default)]
    witness_id: u64,
    #[serde(default, deserialize_with = "hex_bytes")]
    witness_address: Bytes,
    #[serde(default)]
    version: u32,
    #[serde(rename = "accountStateRoot", default, deserialize_with = "hex_bytes")]
    account_state_root: Bytes,
}

/// A transaction of a block.
#[derive(Debug, Deserialize)]
pub(super) struct StatedTronTransaction {
    #[serde(deserialize_with = "hex_bytes")]
    raw_data_hex: Bytes,
    #[serde(default, deserialize_with = "few")]
    signature: Vec<HexText>,
    #[serde(default, deserialize_with = "few")]
    ret: Vec<StatedTronResult>,
}

/// Bytes in hexadecimal digits without `0x`.
#[derive(Debug, Deserialize)]
struct HexText(#[serde(deserialize_with = "hex_bytes")] Bytes);

#[derive(Debug, Deserialize)]
struct StatedTronResult {
    #[serde(default)]
    fee: u64,
    ret: Option<String>,
    #[serde(rename = "contractRet")]
    contract_result: Option<String>,
    /// Fields of other kinds of transactions.
    #[serde(flatten)]
    others: Map<String, Value>,
}

/// What the execution of a transaction caused.
#[derive(Debug, Deserialize)]
pub(super) struct StatedTronInfo {
    /// The transaction.
    #[serde(deserialize_with = "hex")]
    pub(super) id: B256,
    /// Height of its block.
    #[serde(rename = "blockNumber", default)]
    pub(super) block_number: u64,
    /// Present if the transaction failed.
    pub(super) result: Option<String>,
    #[serde(default)]
    receipt: StatedTronReceipt,
    #[serde(default)]
    log: Vec<StatedTronLog>,
}

#[derive(Debug, Default, Deserialize)]
struct StatedTronReceipt {
    result: Option<String>,
}

#[derive(Debug, Deserialize)]
struct StatedTronLog {
    #[serde(deserialize_with = "hex_bytes")]
    address: Bytes,
    #[serde(default, deserialize_with = "few")]
    topics: Vec<HexText>,
    #[serde(default, deserialize_with = "hex_bytes")]
    data: Bytes,
}

/// Maximum length of the short lists: a transaction has one result and at most five signatures, an event four topics.
const FEW: usize = 16;

/// Reads a short list. A longer one is refused while it is read, because its items need many times the memory of their
/// text.
fn few<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    struct ShortList<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for ShortList<T> {
        type Value = Vec<T>;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(formatter, "a list of at most {FEW} items")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
            let mut list = Vec::new();
            while let Some(item) = items.next_element()? {
                if list.len() == FEW {
                    return Err(A::Error::invalid_length(FEW + 1, &self));
                }
                list.push(item);
            }
            Ok(list)
        }
    }

    deserializer.deserialize_seq(ShortList(PhantomData))
}

impl StatedTronBlock {
    /// The header, whose id is recomputed from its fields, and the id; `None` for an unknown block. Errors: the stated id
    /// is another one.
    pub(super) fn header(&self) -> Result<Option<(TronHeader, B256)>, NodeFailure> {
        let (Some(stated), Some(header)) = (self.block_id, &self.block_header) else {
            return match (self.block_id, &self.block_header) {
                (None, None) => Ok(None),
                _ => Err(NodeFailure::Untrue("a block has no id or no header".to_owned())),
            };
        };
        let raw = &header.raw_data;
        let header = TronHeader {
            timestamp_ms: raw.timestamp,
            transactions_root: raw.transactions_root,
            parent_id: raw.parent_id,
            number: raw.number,
            witness_id: raw.witness_id,
            witness_address: raw.witness_address.clone(),
            version: raw.version,
            account_state_root: raw.account_state_root.clone(),
        };
        let recomputed = header.block_id();
        if recomputed != stated {
            return Err(NodeFailure::Untrue(format!(
                "the header fields of block {} have the id {recomputed}, but the node states {stated}",
                header.number
            )));
        }
        Ok(Some((header, stated)))
    }

    /// The stated id. It proves nothing.
    pub(super) fn stated_id(&self) -> Option<B256> {
        self.block_id
    }
}

impl StatedTronTransaction {
    /// The transaction as its block contains it; `None` if a field is unknown, so that its leaf cannot be recomputed.
    pub(super) fn stored(&self) -> Option<StoredTransaction> {
        Some(StoredTransaction {
            raw_data: self.raw_data_hex.clone(),
            signatures: self.signature.iter().map(|text| text.0.clone()).collect(),
            results: self.ret.iter().map(StatedTronResult::read).collect::<Option<_>>()?,
        })
    }
}

impl StatedTronResult {
    fn read(&self) -> Option<TransactionResult> {
        let mut result = TransactionResult {
            fee: self.fee,
            is_failed: match self.ret.as_deref() {
                None | Some("SUCESS") => false,
                Some("FAILED") => true,
                Some(_) => return None,
            },
            contract_result: match &self.contract_result {
                Some(name) => ContractResult::from_wire(name)?,
                None => ContractResult::Default,
            },
            ..TransactionResult::default()
        };
        for (name, value) in &self.others {
            let amount = match name.as_str() {
                "withdraw_amount" => &mut result.withdraw_amount,
                "unfreeze_amount" => &mut result.unfreeze_amount,
                "exchange_received_amount" => &mut result.exchange_received_amount,
                "exchange_inject_another_amount" => &mut result.exchange_inject_another_amount,
                "exchange_withdraw_another_amount" => &mut result.exchange_withdraw_another_amount,
                "exchange_id" => &mut result.exchange_id,
                "shielded_transaction_fee" => &mut result.shielded_transaction_fee,
                "withdraw_expire_amount" => &mut result.withdraw_expire_amount,
                "assetIssueID" => {
                    value.as_str()?.clone_into(&mut result.asset_issue_id);
                    continue;
                }
                "orderId" => {
                    result.order_id = hex_of(value)?;
                    continue;
                }
                "orderDetails" => {
                    result.order_details = value.as_array()?.iter().map(order_detail).collect::<Option<_>>()?;
                    continue;
                }
                "cancel_unfreezeV2_amount" => {
                    result.cancelled_unfreezes = value.as_array()?.iter().map(unfreeze).collect::<Option<_>>()?;
                    continue;
                }
                _ => return None,
            };
            *amount = value.as_u64()?;
        }
        Some(result)
    }
}

fn order_detail(value: &Value) -> Option<MarketOrderDetail> {
    let quantity = |name: &str| value.get(name).map_or(Some(0), Value::as_u64);
    let id = |name: &str| value.get(name).map_or(Some(Bytes::new()), hex_of);
    Some(MarketOrderDetail {
        maker_order_id: id("makerOrderId")?,
        taker_order_id: id("takerOrderId")?,
        sold_quantity: quantity("fillSellQuantity")?,
        bought_quantity: quantity("fillBuyQuantity")?,
    })
}

/// An entry of a map, which the API writes as a member `key` and a member `value`.
fn unfreeze(entry: &Value) -> Option<(String, u64)> {
    let amount = entry.get("value").map_or(Some(0), Value::as_u64)?;
    Some((entry.get("key")?.as_str()?.to_owned(), amount))
}

fn hex_of(value: &Value) -> Option<Bytes> {
    hex::decode(value.as_str()?).ok().map(Bytes::from)
}

impl StatedTronInfo {
    /// Whether the info agrees with a result of the transaction.
    pub(super) fn agrees_with(&self, succeeded: bool, result: ContractResult) -> bool {
        let is_failed = self.result.as_deref() == Some("FAILED");
        let stated = self.receipt.result.as_deref();
        // Transactions that call no contract have no result in their receipt.
        is_failed != succeeded && stated.is_none_or(|stated| stated == result.wire())
    }

    /// The events, at these positions in the chain. Errors: an event has another form.
    pub(super) fn logs(&self, header: &ProvenHeader, index: u64, first_log: u64) -> Result<Vec<RawLog>, String> {
        let logs = (first_log..).zip(&self.log).map(|(log_index, log)| {
            let topics = log.topics.iter().map(|topic| B256::try_from(topic.0.as_ref()));
            let topics = topics.collect::<Result<_, _>>();
            let address = EvmAddress::try_from(log.address.as_ref());
            let (Ok(address), Ok(topics)) = (address, topics) else {
                return Err(format!(
                    "an event of transaction {} has an unexpected structure",
                    self.id
                ));
            };
            Ok(RawLog {
                address,
                topics,
                data: log.data.clone(),
                block_hash: Some(header.hash),
                block_number: Some(U64::from(header.number)),
                transaction_hash: Some(self.id),
                transaction_index: Some(U64::from(index)),
                log_index: Some(U64::from(log_index)),
                removed: false,
            })
        });
        logs.collect()
    }

    /// Number of events.
    pub(super) fn count_logs(&self) -> u64 {
        self.log.len() as u64
    }
}

fn hex_bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
    let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
    hex::decode(text.as_bytes()).map(Bytes::from).map_err(D::Error::custom)
}

fn hex<'de, D: Deserializer<'de>>(deserializer: D) -> Result<B256, D::Error> {
    let bytes = hex_bytes(deserializer)?;
    B256::try_from(bytes.as_ref()).map_err(D::Error::custom)
}

fn optional_hex<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<B256>, D::Error> {
    hex(deserializer).map(Some)
}
