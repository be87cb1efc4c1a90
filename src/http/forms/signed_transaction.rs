//! A signed transaction, as wallets and tronweb write it.

use crate::{
    domain::secure_payment::broadcast::{SentTransaction, StatedValue},
    http::forms::{reason::shorten_name, shape::shape, text::text},
};
use poem_openapi::{
    Object,
    registry::{MetaSchema, MetaSchemaRef, Registry},
    types::{Example, ParseError, ParseFromJSON, ParseResult, ToJSON, Type},
};
use serde_json::{Value, json};

text! {
    /// Bytes of an encoded transaction.
    RawDataHexText {
        pattern: "^[a-fA-F0-9]+$",
        length_max: 8192,
        example: "0a02c7a122088a1fd7b4ac0b7e3140e0acc5a28c345aae01081f12a9010a31747970652e676f6f676c65617069732e636f6d2\
                  f70726f746f636f6c2e54726967676572536d617274436f6e747261637412740a1541a3c311eb2df8e1387e3942c997723daa\
                  b9138e81121541a614f803b6fd780986a42c78ec9c7f77e6ded13c2244095ea7b30000000000000000000000001b6ca35d398\
                  42cf8fbe49000653a1505412da65900000000000000000000000000000000000000000000000000000000000fa3e87080d8c1\
                  a28c34900180c2d72f",
        hint: "must be at most 8192 hexadecimal digits, without 0x",
    }
    /// A signature of an encoded transaction.
    TransactionSignatureText {
        pattern: "^[a-fA-F0-9]+$",
        length_max: 512,
        example: "45962196c337b5bc63d44a5a6cd1d1afb2cdb1d159662f810c5bb8018517a6bc774a669007d7234ab79a66035bd18286213c\
                  b6d04101d50e33a491ca640da1141C",
        hint: "must be at most 512 hexadecimal digits, without 0x",
    }
    /// Hash of a transaction without `0x`.
    PlainTxHash {
        pattern: "^[a-fA-F0-9]{64}$",
        length_max: 64,
        example: "07407dcd637c679dbfbcee9ca4b9b03ddf771770f4176137df857d6aa5ebf5bd",
        hint: "must be a transaction hash of 64 hexadecimal digits, without 0x",
    }
    /// Bytes of the call of a contract; there may be none.
    CallDataText {
        pattern: "^[a-fA-F0-9]*$",
        length_max: 8192,
        example: "095ea7b30000000000000000000000001b6ca35d39842cf8fbe49000653a1505412da659000000000000000000000000\
                  00000000000000000000000000000000000fa3e8",
        hint: "must be at most 8192 hexadecimal digits, without 0x",
    }
    /// An address as nodes write it, in hexadecimal digits, or as wallets write it with `visible`, in Base58.
    TronAccountText {
        pattern: "^(41[a-fA-F0-9]{40}|T[1-9A-HJ-NP-Za-km-z]{33})$",
        length_max: 42,
        example: "41a3c311eb2df8e1387e3942c997723daab9138e81",
        hint: "must be a Tron address: 41 and 40 hexadecimal digits, or 34 Base58 characters that begin with T",
    }
}

/// The call of a contract in the JSON form of a signed transaction. Its texts may have the forms of nodes or wallets.
#[derive(Debug, Clone, Object)]
pub struct TronContractCallJson {
    /// Encoded call
    pub data: Option<CallDataText>,
    /// Account that signs
    pub owner_address: TronAccountText,
    /// Called contract. Example: `TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t`
    pub contract_address: TronAccountText,
}

/// Parameter of a contract in the JSON form of a signed transaction.
#[derive(Debug, Clone, Object)]
pub struct TronContractParameterJson {
    /// The call
    pub value: TronContractCallJson,
    /// Type of the call. Example: `type.googleapis.com/protocol.TriggerSmartContract`
    #[oai(validator(max_length = 64))]
    pub type_url: String,
}

/// Contract in the JSON form of a signed transaction.
#[derive(Debug, Clone, Object)]
pub struct TronContractJson {
    /// Parameter of the contract
    pub parameter: TronContractParameterJson,
    /// Type of the contract. Example: `TriggerSmartContract`
    #[oai(rename = "type", validator(max_length = 64))]
    pub kind: String,
}

/// The JSON form of a transaction. The schema requires only one of its members, because the encoding decides and every
/// member is compared with the encoding.
#[derive(Debug, Clone, PartialEq)]
pub struct TransactionJson(Value);

/// Largest integer that every JSON parser reads exactly. Real values are far below it.
const INTEGER_MAX: f64 = 9_007_199_254_740_991.0;

/// Name of the type in the documents.
const TRANSACTION_JSON: &str = "TronTransactionJson";

shape! {
    TransactionJson, TRANSACTION_JSON, { MetaSchemaRef::Reference(TRANSACTION_JSON.to_owned()) },
    |registry: &mut Registry| {
        TronContractJson::register(registry);
        registry.create_schema::<Self, _>(TRANSACTION_JSON.to_owned(), |_| transaction_schema());
    }
}

fn transaction_schema() -> MetaSchema {
    let mut contract = MetaSchema::new("array");
    contract.description = Some("The contract call");
    contract.items = Some(Box::new(TronContractJson::schema_ref()));
    contract.min_items = Some(1);
    contract.max_items = Some(16);
    contract.example = Some(stated_example()["contract"].clone());
    let member = |name: &'static str, kind: MetaSchema, description| {
        let described = MetaSchema {
            description: Some(description),
            example: Some(stated_example()[name].clone()),
            ..kind
        };
        (name, MetaSchemaRef::Inline(Box::new(described)))
    };
    let integer = || MetaSchema {
        minimum: Some(0.0),
        maximum: Some(INTEGER_MAX),
        ..MetaSchema::new_with_format("integer", "int64")
    };
    let digits = |length| MetaSchema {
        pattern: Some("^[a-fA-F0-9]+$".to_owned()),
        max_length: Some(length),
        ..MetaSchema::new("string")
    };
    let mut schema = MetaSchema::new("object");
    schema.description =
        Some("The same transaction as JSON, as wallets write it. It has to say what `raw_data_hex` says");
    schema.properties = vec![
        ("contract", MetaSchemaRef::Inline(Box::new(contract))),
        member(
            "ref_block_bytes",
            digits(4),
            "Last two bytes of the number of the block to which it refers",
        ),
        member(
            "ref_block_hash",
            digits(16),
            "Bytes 8 to 15 of the id of the block to which it refers",
        ),
        member(
            "expiration",
            integer(),
            "Unix time in milliseconds after which no block accepts it",
        ),
        member("timestamp", integer(), "Unix time of its creation in milliseconds"),
        member(
            "fee_limit",
            integer(),
            "Maximum TRX that the owner burns for energy, in sun",
        ),
    ];
    schema.required = vec!["contract"];
    schema.example = Some(stated_example());
    schema
}

impl ParseFromJSON for TransactionJson {
    fn parse_from_json(value: Option<Value>) -> ParseResult<Self> {
        let value = value.filter(Value::is_object);
        value.map(Self).ok_or_else(|| ParseError::custom("must be an object"))
    }
}

impl ToJSON for TransactionJson {
    fn to_json(&self) -> Option<Value> {
        Some(self.0.clone())
    }
}

/// The JSON form of the example.
fn stated_example() -> Value {
    json!({
        "contract": [{
            "parameter": {
                "value": {
                    "data": "095ea7b30000000000000000000000001b6ca35d39842cf8fbe49000653a1505412da659\
                             00000000000000000000000000000000000000000000000000000000000fa3e8",
                    "owner_address": "41a3c311eb2df8e1387e3942c997723daab9138e81",
                    "contract_address": "41a614f803b6fd780986a42c78ec9c7f77e6ded13c",
                },
                "type_url": "type.googleapis.com/protocol.TriggerSmartContract",
            },
            "type": "TriggerSmartContract",
        }],
        "ref_block_bytes": "c7a1",
        "ref_block_hash": "8a1fd7b4ac0b7e31",
        "expiration": 1_790_000_060_000_u64,
        "timestamp": 1_790_000_000_000_u64,
        "fee_limit": 100_000_000,
    })
}

/// Transaction that a wallet has signed. Other members, for example `visible`, are ignored.
#[derive(Debug, Clone, Object)]
#[oai(skip_serializing_if_is_none)]
pub struct SignedTransactionBody {
    /// The encoded transaction; these bytes were signed and are broadcast
    pub raw_data_hex: RawDataHexText,
    /// The signature of the owner; a transaction with several signatures is refused
    #[oai(validator(min_items = 1, max_items = 16))]
    pub signature: Vec<TransactionSignatureText>,
    /// Hash of the transaction; must be that of `raw_data_hex`
    #[oai(rename = "txID", nullable)]
    pub tx_id: Option<PlainTxHash>,
    /// The transaction as JSON; must say the same as `raw_data_hex`
    pub raw_data: TransactionJson,
}

/// Transaction to broadcast.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", example)]
pub struct BroadcastBody {
    /// The transaction, as `tronWeb.trx.sign` returns it
    pub signed_transaction: SignedTransactionBody,
}

impl Example for BroadcastBody {
    fn example() -> Self {
        Self {
            signed_transaction: SignedTransactionBody {
                raw_data_hex: RawDataHexText::example(),
                signature: vec![TransactionSignatureText::example()],
                tx_id: Some(PlainTxHash::example()),
                raw_data: TransactionJson(stated_example()),
            },
        }
    }
}

impl From<BroadcastBody> for SentTransaction {
    fn from(body: BroadcastBody) -> Self {
        let sent = body.signed_transaction;
        Self {
            raw_data_hex: sent.raw_data_hex.into(),
            signatures: sent.signature.into_iter().map(String::from).collect(),
            tx_id: sent.tx_id.map(String::from),
            raw_data: stated(sent.raw_data.0),
        }
    }
}

fn stated(value: Value) -> StatedValue {
    match value {
        Value::Number(number) => number.as_u64().map_or(StatedValue::Other, StatedValue::Integer),
        Value::String(text) => StatedValue::Text(text),
        Value::Array(items) => StatedValue::List(items.into_iter().map(stated).collect()),
        Value::Object(members) => {
            let members = members.into_iter();
            StatedValue::Object(
                members
                    .map(|(name, value)| (shorten_name(&name), stated(value)))
                    .collect(),
            )
        }
        Value::Null | Value::Bool(_) => StatedValue::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::body::parse;

    #[test]
    fn the_example_is_a_transaction_that_its_owner_signed() {
        let body = BroadcastBody::example();
        let sent = SentTransaction::from(body.clone());
        let signed = sent.check().unwrap();
        assert_eq!(signed.owner().to_string(), "TQu6q2b9ctdY7tJH3EEX68ys3ywRvrbEz1");
        let text = body.to_json().unwrap().to_string();
        let parsed: BroadcastBody = parse(text.as_bytes()).map_err(|_| "refused").unwrap();
        assert_eq!(SentTransaction::from(parsed), sent);
    }

    #[test]
    fn numbers_that_no_field_can_have_differ_from_every_field() {
        for value in [json!(-1), json!(1.5), json!(true), Value::Null] {
            assert_eq!(stated(value), StatedValue::Other);
        }
        let nested = stated(json!({ "a": [1, "b"] }));
        let list = StatedValue::List(vec![StatedValue::Integer(1), StatedValue::Text("b".to_owned())]);
        assert_eq!(nested, StatedValue::Object(vec![("a".to_owned(), list)]));
    }
}
