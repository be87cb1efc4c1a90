//! Compares the encoding of Tron transactions with tronweb, the library of Tron wallets, on random transactions.

use crate::support::published;
use alloy::primitives::{Address as EvmAddress, B256};
use prs::domain::tron::{ReferenceBlock, TronCall, TronTransaction};
use serde_json::Value;
use std::process::Command;

fn text<'a>(fields: &'a Value, name: &str) -> &'a str {
    fields[name].as_str().expect("a text")
}

fn integer(fields: &Value, name: &str) -> u64 {
    fields[name].as_u64().expect("an integer")
}

/// The 20 bytes after the prefix.
fn address(fields: &Value, name: &str) -> EvmAddress {
    let digits = text(fields, name).strip_prefix("41").expect("the prefix");
    digits.parse().expect("an address")
}

fn described(fields: &Value) -> TronTransaction {
    TronTransaction {
        reference_block: ReferenceBlock {
            number_bytes: hex::decode_to_array(text(fields, "refBlockBytes")).expect("2 bytes"),
            hash_bytes: hex::decode_to_array(text(fields, "refBlockHash")).expect("8 bytes"),
        },
        expiration_ms: integer(fields, "expiration"),
        timestamp_ms: integer(fields, "timestamp"),
        fee_limit_sun: integer(fields, "feeLimit"),
        permission_id: integer(fields, "permissionId").try_into().expect("32 bits"),
        call: TronCall {
            owner: address(fields, "owner"),
            contract: address(fields, "contract"),
            value_sun: integer(fields, "callValue"),
            data: text(fields, "data").parse().expect("bytes"),
            token_value: integer(fields, "tokenValue"),
            token_id: integer(fields, "tokenId"),
        },
    }
}

#[test]
fn ten_thousand_random_transactions_encode_as_by_tronweb() {
    let mut node = Command::new("node");
    node.arg(devnet::dir().join("tron/random_transactions.mjs"));
    let printed = published::run(&mut node);
    let mut count = 0;
    for line in printed.lines() {
        let fields: Value = serde_json::from_str(line).expect("JSON");
        let transaction = described(&fields);
        let encoding = transaction.encode();
        assert_eq!(hex::encode(&encoding), text(&fields, "rawData"), "{line}");
        assert_eq!(
            transaction.tx_id(),
            text(&fields, "txId").parse::<B256>().expect("a hash")
        );
        assert_eq!(TronTransaction::decode(&encoding), Ok(transaction), "{line}");
        count += 1;
    }
    assert_eq!(count, 10_000);
}
