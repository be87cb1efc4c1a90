//! The lies that a node of the stand-in can tell.

use serde::Serialize;
use serde_json::{Map, Value, json};

/// A payment that never happened.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TronForgedPayment {
    /// The token.
    pub token: String,
    /// The address that the token's event names as the payer; `None` is the forger's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payer: Option<String>,
    /// The payee.
    pub to: String,
    /// The amount in base units, as a decimal number.
    pub amount: String,
    /// The payment reference in hexadecimal.
    pub reference: String,
    /// The fee in base units, as a decimal number.
    pub fee_amount: String,
    /// The address that gets the fee; `None` is the zero address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fee_address: Option<String>,
}

/// A lie of one node. A lie about blocks or receipts is about `block`, or about every block from 1 on if it is `None`.
#[derive(Clone, Debug)]
pub enum TronLie {
    /// `eth_getLogs` returns no event.
    MissingLogs,
    /// `eth_getLogs` returns one more event, in the newest block.
    ForgedLogs(TronForgedPayment),
    /// The last event of a receipt reports ten times the amount.
    ForgedLog(Option<u64>),
    /// A receipt reports failure for success, and success for failure.
    ChangedResult(Option<u64>),
    /// `gettransactioninfobyblocknum` returns `[]`.
    EmptyInfos,
    /// A block has another time and therefore another id. It is consistent in itself.
    OtherHeader(Option<u64>),
    /// The id of a block does not fit its header.
    WrongId(Option<u64>),
    /// The calls of a block pay ten times the amount. Header and signatures stay.
    ChangedTransaction(Option<u64>),
    /// The first transaction of a block is missing. The header stays.
    OmittedTransaction(Option<u64>),
    /// The results inside a block are swapped. The header stays.
    ChangedContractRet(Option<u64>),
    /// Blocks are `{}`.
    UnknownBlocks,
    /// Block 0 and the chain id are those of the test network Nile.
    WrongGenesis,
    /// Consistent blocks that credit a payment that never happened.
    ForgedBlock {
        /// The payment.
        payment: TronForgedPayment,
        /// Number of the block; `None` is the next one.
        number: Option<u64>,
        /// Whether the blocks have valid signatures of witnesses.
        witness_keys: bool,
    },
    /// Calls return status 200 with `{"Error": …}`.
    ErrorInOk {
        /// The only path that is affected; `None` is every path.
        path: Option<String>,
        /// Number of calls that are affected; `None` is every call.
        times: Option<u64>,
    },
    /// Calls are rejected with 403, 429 or 503.
    Quota {
        /// The status.
        status: u16,
        /// The only path that is affected; `None` is every path.
        path: Option<String>,
        /// Number of calls that are affected; `None` is every call.
        times: Option<u64>,
    },
    /// Every response comes late, by this many milliseconds.
    Slow(u64),
    /// Broadcasts are accepted and lost.
    LostBroadcast,
    /// Broadcasts are rejected with this code, such as `SERVER_BUSY`.
    BroadcastCode(String),
}

impl TronLie {
    /// The name of the lie and its setting in a control call.
    pub(super) fn setting(&self) -> anyhow::Result<(&'static str, Value)> {
        let about = |block: &Option<u64>| without_nulls([("block", json!(block))]);
        Ok(match self {
            Self::MissingLogs => ("missingLogs", json!(true)),
            Self::ForgedLogs(payment) => ("forgedLogs", serde_json::to_value(payment)?),
            Self::ForgedLog(block) => ("forgedLog", about(block)),
            Self::ChangedResult(block) => ("changedResult", about(block)),
            Self::EmptyInfos => ("emptyInfos", json!(true)),
            Self::OtherHeader(block) => ("otherHeader", about(block)),
            Self::WrongId(block) => ("wrongId", about(block)),
            Self::ChangedTransaction(block) => ("changedTransaction", about(block)),
            Self::OmittedTransaction(block) => ("omittedTransaction", about(block)),
            Self::ChangedContractRet(block) => ("changedContractRet", about(block)),
            Self::UnknownBlocks => ("unknownBlocks", json!(true)),
            Self::WrongGenesis => ("wrongGenesis", json!(true)),
            Self::ForgedBlock {
                payment,
                number,
                witness_keys,
            } => {
                let mut setting = serde_json::to_value(payment)?;
                setting["witnessKeys"] = json!(witness_keys);
                if let Some(number) = number {
                    setting["number"] = json!(number);
                }
                ("forgedBlock", setting)
            }
            Self::ErrorInOk { path, times } => (
                "errorInOk",
                without_nulls([("path", json!(path)), ("times", json!(times))]),
            ),
            Self::Quota { status, path, times } => (
                "quota",
                without_nulls([
                    ("status", json!(status)),
                    ("path", json!(path)),
                    ("times", json!(times)),
                ]),
            ),
            Self::Slow(ms) => ("slow", json!({ "ms": ms })),
            Self::LostBroadcast => ("lostBroadcast", json!(true)),
            Self::BroadcastCode(code) => ("broadcastCode", json!({ "code": code, "message": code })),
        })
    }
}

fn without_nulls<const N: usize>(fields: [(&str, Value); N]) -> Value {
    fields
        .into_iter()
        .filter(|(_, value)| !value.is_null())
        .map(|(name, value)| (name.to_owned(), value))
        .collect::<Map<_, _>>()
        .into()
}
