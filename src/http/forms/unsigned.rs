//! Transactions of Tron that lack only a signature, in the JSON form of nodes and wallets.

use crate::domain::{
    address::TRON_PREFIX,
    tron::{TronCall, TronTransaction},
};
use alloy::primitives::Address as EvmAddress;
use poem_openapi::Object;

/// Type of the parameter of a call.
const TYPE_URL: &str = "type.googleapis.com/protocol.TriggerSmartContract";

/// Contract type of a call.
const CONTRACT_TYPE: &str = "TriggerSmartContract";

/// A call of a Tron contract, without `0x` before hexadecimal digits.
#[derive(Debug, Clone, Object)]
pub struct TronContractCall {
    /// Encoded call. Example: `c219a14d000000000000000000000000a614f803b6fd780986a42c78ec9c7f77e6ded13c0000000000000000000000005cbdd86a2fa8dc4bddd8a8f69dba48572eec07fb000000000000000000000000000000000000000000000000000000000000000700000000000000000000000000000000000000000000000000000000000000c00000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000080000000000000001000000000000000000000000000000000000000000000000`
    #[oai(validator(max_length = 4000, pattern = "^([0-9a-f]{2})+$"))]
    pub data: String,
    /// Account that signs. Example: `41a3c311eb2df8e1387e3942c997723daab9138e81`
    #[oai(validator(max_length = 42, pattern = "^41[0-9a-f]{40}$"))]
    pub owner_address: String,
    /// Called contract. Example: `411b6ca35d39842cf8fbe49000653a1505412da659`
    #[oai(validator(max_length = 42, pattern = "^41[0-9a-f]{40}$"))]
    pub contract_address: String,
}

/// Parameter of a Tron contract.
#[derive(Debug, Clone, Object)]
pub struct TronContractParameter {
    /// The call
    pub value: TronContractCall,
    /// Type of the call. Example: `type.googleapis.com/protocol.TriggerSmartContract`
    #[oai(validator(max_length = 64))]
    pub type_url: String,
}

/// Contract of a Tron transaction.
#[derive(Debug, Clone, Object)]
pub struct TronContract {
    /// Parameter of the contract
    pub parameter: TronContractParameter,
    /// Type of the contract. Example: `TriggerSmartContract`
    #[oai(rename = "type", validator(max_length = 64))]
    pub kind: String,
}

/// The signed part of a Tron transaction.
#[derive(Debug, Clone, Object)]
pub struct TronRawData {
    /// The call, always one
    #[oai(validator(min_items = 1, max_items = 1))]
    pub contract: Vec<TronContract>,
    /// The last two bytes of the number of the reference block. Example: `c7a1`
    #[oai(validator(max_length = 4, pattern = "^[0-9a-f]{4}$"))]
    pub ref_block_bytes: String,
    /// Bytes 8 to 15 of the id of the reference block. Example: `8a1fd7b4ac0b7e31`
    #[oai(validator(max_length = 16, pattern = "^[0-9a-f]{16}$"))]
    pub ref_block_hash: String,
    /// Unix time in milliseconds at which the transaction expires, 60 seconds after the reference block.
    /// Example: `1790000060000`
    #[oai(validator(minimum(value = "0"), maximum(value = "9007199254740991")))]
    pub expiration: u64,
    /// Maximum fee for energy, in sun. Example: `300000000`
    #[oai(validator(minimum(value = "0"), maximum(value = "9007199254740991")))]
    pub fee_limit: u64,
    /// Unix time of the reference block, in milliseconds. Example: `1790000000000`
    #[oai(validator(minimum(value = "0"), maximum(value = "9007199254740991")))]
    pub timestamp: u64,
}

/// The texts of an unsigned transaction.
#[derive(Debug, Clone)]
pub struct UnsignedTexts {
    /// The signed part.
    pub raw_data: TronRawData,
    /// Its encoding.
    pub raw_data_hex: String,
    /// Hash of the encoding, without `0x`.
    pub tx_id: String,
}

impl UnsignedTexts {
    /// The members of a response body: the signed part, its encoding and its hash.
    pub fn members(texts: Option<Self>) -> (Option<TronRawData>, Option<String>, Option<String>) {
        match texts {
            Some(texts) => (Some(texts.raw_data), Some(texts.raw_data_hex), Some(texts.tx_id)),
            None => (None, None, None),
        }
    }
}

impl From<&TronTransaction> for UnsignedTexts {
    fn from(transaction: &TronTransaction) -> Self {
        let encoded = transaction.encode();
        Self {
            raw_data: TronRawData {
                contract: vec![contract(&transaction.call)],
                ref_block_bytes: hex::encode(transaction.reference_block.number_bytes),
                ref_block_hash: hex::encode(transaction.reference_block.hash_bytes),
                expiration: transaction.expiration_ms,
                fee_limit: transaction.fee_limit_sun,
                timestamp: transaction.timestamp_ms,
            },
            raw_data_hex: hex::encode(encoded),
            tx_id: hex::encode(transaction.tx_id()),
        }
    }
}

/// The contract of a call that sends no coins and no tokens of the chain itself, like every step of a payment.
fn contract(call: &TronCall) -> TronContract {
    TronContract {
        parameter: TronContractParameter {
            value: TronContractCall {
                data: hex::encode(&call.data),
                owner_address: prefixed(&call.owner),
                contract_address: prefixed(&call.contract),
            },
            type_url: TYPE_URL.to_owned(),
        },
        kind: CONTRACT_TYPE.to_owned(),
    }
}

fn prefixed(address: &EvmAddress) -> String {
    format!("{TRON_PREFIX:02x}{}", hex::encode(address))
}

#[cfg(test)]
mod tests {
    use super::*;
    use poem_openapi::types::ToJSON;
    use serde_json::{Value, json};

    #[test]
    fn unsigned_transactions_have_the_form_of_the_vectors() {
        let vectors = include_str!("../../../tests/vectors/tron-transactions.json");
        let vectors: Value = serde_json::from_str(vectors).unwrap();
        for case in vectors["cases"].as_array().unwrap() {
            let text = |name: &str| case[name].as_str().unwrap();
            let transaction = TronTransaction::decode(&hex::decode(text("raw_data_hex")).unwrap()).unwrap();
            let texts = UnsignedTexts::from(&transaction);
            assert_eq!(texts.raw_data_hex, text("raw_data_hex"));
            assert_eq!(texts.tx_id, text("txID"));
            let header = &case["blockHeader"];
            let expected = json!({
                "contract": [{
                    "parameter": {
                        "value": {
                            "data": case["data"],
                            "owner_address": prefixed(&transaction.call.owner),
                            "contract_address": prefixed(&transaction.call.contract),
                        },
                        "type_url": TYPE_URL,
                    },
                    "type": "TriggerSmartContract",
                }],
                "ref_block_bytes": header["ref_block_bytes"],
                "ref_block_hash": header["ref_block_hash"],
                "expiration": header["expiration"],
                "fee_limit": case["feeLimit"],
                "timestamp": header["timestamp"],
            });
            assert_eq!(texts.raw_data.to_json(), Some(expected), "{}", text("name"));
        }
    }
}
