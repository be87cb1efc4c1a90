//! Tests of blocks: published headers and transactions, and trees that are calculated by hand.

use super::*;
use serde_json::Value;

/// Published headers and transactions. The facts about them were recomputed when the file was made.
const PUBLISHED: &str = include_str!("../../../../tests/vectors/tron-headers.json");

fn published(list: &str) -> Vec<Value> {
    let file: Value = serde_json::from_str(PUBLISHED).unwrap();
    file[list].as_array().unwrap().clone()
}

fn hash(value: &Value) -> B256 {
    value.as_str().unwrap().parse().unwrap()
}

fn bytes(value: &Value) -> Bytes {
    value.as_str().unwrap().parse().unwrap()
}

fn header(published: &Value) -> TronHeader {
    let raw = &published["raw_data"];
    TronHeader {
        timestamp_ms: raw["timestamp"].as_u64().unwrap(),
        transactions_root: hash(&raw["txTrieRoot"]),
        parent_id: hash(&raw["parentHash"]),
        number: raw["number"].as_u64().unwrap(),
        witness_id: 0,
        witness_address: bytes(&raw["witness_address"]),
        version: raw["version"].as_u64().unwrap().try_into().unwrap(),
        account_state_root: Bytes::new(),
    }
}

fn stored(published: &Value) -> StoredTransaction {
    let contract_result = ContractResult::from_wire(published["contractRet"].as_str().unwrap()).unwrap();
    StoredTransaction {
        raw_data: bytes(&published["raw_data_hex"]),
        signatures: vec![bytes(&published["signature"])],
        results: vec![TransactionResult {
            contract_result,
            ..TransactionResult::default()
        }],
    }
}

#[test]
fn ids_of_published_headers_are_recomputed() {
    let all = published("headers");
    assert_eq!(all.len(), 5);
    for published in &all {
        let header = header(published);
        assert_eq!(hex::encode(header.encode()), published["rawBytesHex"].as_str().unwrap());
        assert_eq!(header.block_id(), hash(&published["blockId"]));
        let is_empty = published["emptyBlock"].as_bool().unwrap();
        assert_eq!(header.transactions_root == transactions_root(&[]), is_empty);
    }
    assert!(all.iter().any(|published| published["emptyBlock"] == true));
}

#[test]
fn every_field_of_a_header_is_in_its_encoding() {
    let header = TronHeader {
        timestamp_ms: 1,
        transactions_root: B256::ZERO,
        parent_id: B256::repeat_byte(0x22),
        number: 7,
        witness_id: 8,
        witness_address: Bytes::from_static(&[0x41]),
        version: 10,
        account_state_root: Bytes::from_static(&[0x11, 0x12]),
    };
    let expected = format!(
        "08011220{}1a20{}380740084a0141500a5a021112",
        "00".repeat(32),
        "22".repeat(32)
    );
    assert_eq!(hex::encode(header.encode()), expected);
    let id = "00000000000000071a40f5f2841e63780b6fc928a18274a2710e806928dea2c3";
    assert_eq!(header.block_id(), id.parse::<B256>().unwrap());
}

#[test]
fn ids_and_leaves_of_published_transactions_are_recomputed() {
    let all = published("transactions");
    assert_eq!(all.len(), 2);
    for published in &all {
        let transaction = stored(published);
        assert_eq!(transaction.tx_id(), hash(&published["txID"]));
        assert_eq!(transaction.leaf(), hash(&published["leaf"]));
    }
}

#[test]
fn the_leaf_depends_on_signatures_and_results_and_the_id_does_not() {
    let transaction = stored(&published("transactions")[0]);
    let mut others = vec![transaction.clone(); 6];
    others[0].signatures.clear();
    others[1].signatures.push(Bytes::new());
    others[2].results.clear();
    others[3].results.push(TransactionResult::default());
    others[4].results[0].contract_result = ContractResult::Revert;
    others[5].results[0].fee = 1;
    for (index, other) in others.iter().enumerate() {
        assert_eq!(other.tx_id(), transaction.tx_id(), "{index}");
        assert_ne!(other.leaf(), transaction.leaf(), "{index}");
    }
}

#[test]
fn empty_elements_of_lists_are_in_the_leaf() {
    let transaction = StoredTransaction {
        raw_data: Bytes::from_static(&[0x0a, 0x02, 0x01, 0x02]),
        signatures: vec![Bytes::from_static(&[0x11; 3]), Bytes::new()],
        results: vec![
            TransactionResult {
                contract_result: ContractResult::Success,
                ..TransactionResult::default()
            },
            TransactionResult::default(),
        ],
    };
    let encoded = hex::decode("0a040a020102120311111112002a0218012a00").unwrap();
    assert_eq!(transaction.leaf(), sha256(&encoded));
}

#[test]
fn every_field_of_a_result_is_in_its_encoding() {
    let detail = MarketOrderDetail {
        maker_order_id: Bytes::from_static(&[1]),
        taker_order_id: Bytes::from_static(&[2, 3]),
        sold_quantity: 300,
        bought_quantity: 4,
    };
    let empty_detail = MarketOrderDetail {
        maker_order_id: Bytes::new(),
        taker_order_id: Bytes::new(),
        sold_quantity: 0,
        bought_quantity: 0,
    };
    let result = TransactionResult {
        fee: 1_100_000,
        is_failed: true,
        contract_result: ContractResult::OutOfEnergy,
        asset_issue_id: "1000042".to_owned(),
        withdraw_amount: 15,
        unfreeze_amount: 1_600,
        exchange_received_amount: 180_000,
        exchange_inject_another_amount: 19,
        exchange_withdraw_another_amount: 20,
        exchange_id: 21,
        shielded_transaction_fee: 2_200_000_000,
        order_id: Bytes::from_static(&[0x25, 0x26]),
        order_details: vec![detail, empty_detail],
        withdraw_expire_amount: 27,
        cancelled_unfreezes: vec![("BANDWIDTH".to_owned(), 0), ("ENERGY".to_owned(), 5)],
    };
    let expected = concat!(
        "08e0914310",
        "01180a720731303030303432780f8001c00c9001a0fe0a980113a00114a80115b00180ac859908",
        "ca01022526d2010c0a01011202020318ac022004d20100d8011b",
        "e2010d0a0942414e4457494454481000e2010a0a06454e455247591005",
    );
    assert_eq!(hex::encode(result.encode()), expected);
    assert!(TransactionResult::default().encode().is_empty());
}

#[test]
fn contract_results_have_the_published_numbers() {
    let file: Value = serde_json::from_str(PUBLISHED).unwrap();
    let numbers = file["contractRet"].as_object().unwrap();
    assert_eq!(numbers.len(), ContractResult::ALL.len());
    for result in ContractResult::ALL {
        assert_eq!(numbers[result.wire()], result.number(), "{}", result.wire());
    }
}

#[test]
fn roots_of_small_trees_match_a_calculation_by_hand() {
    let node = |left: B256, right: B256| sha256(&[left.0, right.0].concat());
    let [a, b, c, d, e] = [1, 2, 3, 4, 5].map(B256::repeat_byte);
    assert_eq!(transactions_root(&[]), B256::ZERO);
    assert_eq!(transactions_root(&[a]), a);
    assert_eq!(transactions_root(&[a, b]), node(a, b));
    assert_eq!(transactions_root(&[a, b, c]), node(node(a, b), c));
    assert_eq!(transactions_root(&[a, b, c, d]), node(node(a, b), node(c, d)));
    assert_eq!(
        transactions_root(&[a, b, c, d, e]),
        node(node(node(a, b), node(c, d)), e)
    );
    assert_ne!(transactions_root(&[a, b]), transactions_root(&[b, a]));
}
