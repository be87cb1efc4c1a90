//! Tests of which signed transactions are broadcast, and of the message that each other transaction gets.

mod json_form;

use super::*;
use crate::domain::{
    refusal::FieldError,
    tron::{ReferenceBlock, TronCall},
};
use alloy::{
    primitives::{Bytes, keccak256},
    signers::{SignerSync as _, local::PrivateKeySigner},
};
use serde_json::Value;

const LIMITS: FeeLimits = FeeLimits {
    approval_sun: 100_000_000,
    payment_sun: 300_000_000,
};

/// The transactions of tronweb with their signatures: a payment with a fee, and one without.
fn vectors() -> Vec<Value> {
    let text = include_str!("../../../../tests/vectors/tron-transactions.json");
    let file: Value = serde_json::from_str(text).unwrap();
    file["cases"].as_array().unwrap().clone()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

fn key() -> PrivateKeySigner {
    text(&vectors()[0]["privateKey"]).parse().unwrap()
}

fn tron(base58: &str) -> Address {
    Address::parse(base58).unwrap()
}

fn digits(address: Address) -> StatedValue {
    StatedValue::Text(format!("41{}", hex::encode(address.bytes())))
}

fn object<const COUNT: usize>(members: [(&str, StatedValue); COUNT]) -> StatedValue {
    StatedValue::Object(members.map(|(name, value)| (name.to_owned(), value)).into())
}

/// The JSON form in which tronweb writes a transaction.
fn stated(transaction: &TronTransaction) -> StatedValue {
    use StatedValue::{Integer, List, Text};
    let call = &transaction.call;
    let value = object([
        ("data", Text(hex::encode(&call.data))),
        ("owner_address", digits(Address::Tron(call.owner))),
        ("contract_address", digits(Address::Tron(call.contract))),
    ]);
    let parameter = object([
        ("value", value),
        (
            "type_url",
            Text("type.googleapis.com/protocol.TriggerSmartContract".to_owned()),
        ),
    ]);
    let contract = object([
        ("parameter", parameter),
        ("type", Text("TriggerSmartContract".to_owned())),
    ]);
    let block = transaction.reference_block;
    object([
        ("contract", List(vec![contract])),
        ("ref_block_bytes", Text(hex::encode(block.number_bytes))),
        ("ref_block_hash", Text(hex::encode(block.hash_bytes))),
        ("expiration", Integer(transaction.expiration_ms)),
        ("timestamp", Integer(transaction.timestamp_ms)),
        ("fee_limit", Integer(transaction.fee_limit_sun)),
    ])
}

/// A transaction of tronweb as its wallet sends it.
fn sent(index: usize) -> SentTransaction {
    let case = &vectors()[index];
    let raw_data_hex = text(&case["raw_data_hex"]);
    SentTransaction {
        raw_data: stated(&decoded(&raw_data_hex)),
        signatures: vec![text(&case["signature"][0])],
        tx_id: Some(text(&case["txID"])),
        raw_data_hex,
    }
}

fn decoded(raw_data_hex: &str) -> TronTransaction {
    TronTransaction::decode(&hex::decode(raw_data_hex).unwrap()).unwrap()
}

/// The first transaction after a change, signed again by its owner.
fn signed_after(change: impl FnOnce(&mut TronTransaction)) -> SentTransaction {
    let mut transaction = decoded(&sent(0).raw_data_hex);
    change(&mut transaction);
    signed_by(&key(), &transaction)
}

fn signed_by(key: &PrivateKeySigner, transaction: &TronTransaction) -> SentTransaction {
    let signature = key.sign_hash_sync(&transaction.tx_id()).unwrap();
    SentTransaction {
        raw_data_hex: hex::encode(transaction.encode()),
        signatures: vec![hex::encode(signature.as_bytes())],
        tx_id: None,
        raw_data: stated(transaction),
    }
}

/// The steps of the first transaction of tronweb: an approval, and the payment that it is.
fn steps() -> PaymentTransactions {
    let call = decoded(&sent(0).raw_data_hex).call;
    let proxy = Address::Tron(call.contract);
    let token = tron("TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t");
    PaymentTransactions {
        approvals: vec![crate::domain::paying::approval_step(
            token,
            proxy,
            U256::from(1_025_000),
        )],
        payment: PaymentTransaction {
            to: proxy,
            calldata: call.data.to_vec(),
            value: U256::ZERO,
        },
    }
}

fn before_expiration() -> DateTime<Utc> {
    DateTime::from_timestamp_millis(1_790_000_059_999).unwrap()
}

fn errors(refused: Result<impl std::fmt::Debug, Refusal>) -> Vec<(String, String)> {
    let errors = refused.unwrap_err().fields.into_iter();
    errors.map(|FieldError { field, message }| (field, message)).collect()
}

/// The only wrong field of a transaction and its message.
fn refused(sent: &SentTransaction) -> (String, String) {
    let mut errors = errors(sent.check());
    assert_eq!(errors.len(), 1, "{errors:?}");
    errors.remove(0)
}

/// The messages about a transaction that is no step.
fn no_step(sent: &SentTransaction) -> String {
    let signed = sent.check().unwrap();
    let mut errors = errors(signed.require_step(&steps(), &LIMITS, before_expiration()));
    assert_eq!(errors.len(), 1, "{errors:?}");
    let (field, message) = errors.remove(0);
    assert_eq!(field, RAW_DATA_HEX);
    message
}

fn replace_word(transaction: &mut TronTransaction, place: usize) {
    let mut data = transaction.call.data.to_vec();
    data[SELECTOR_LENGTH + place * WORD_LENGTH + 31] ^= 1;
    transaction.call.data = Bytes::from(data);
}

#[test]
fn transactions_of_tronweb_are_steps_and_are_relayed_unchanged() {
    for index in 0..2 {
        let sent = sent(index);
        let signed = sent.check().unwrap();
        assert_eq!(signed.owner(), tron("TQu6q2b9ctdY7tJH3EEX68ys3ywRvrbEz1"));
        assert_eq!(Some(hex::encode(signed.tx_id())), sent.tx_id);
        let length = sent.raw_data_hex.len() / 2;
        let head = [
            0x0a,
            0x80 | u8::try_from(length & 0x7f).unwrap(),
            u8::try_from(length >> 7).unwrap(),
        ];
        let parts = [
            hex::encode(head),
            sent.raw_data_hex,
            "1241".to_owned(),
            sent.signatures[0].to_lowercase(),
        ];
        assert_eq!(hex::encode(signed.encoded()), parts.concat());
    }
    let first = sent(0).check().unwrap();
    first.require_step(&steps(), &LIMITS, before_expiration()).unwrap();
}

#[test]
fn an_approval_of_this_payment_is_a_step() {
    let approval = steps().approvals.remove(0);
    let signed = signed_after(|transaction| {
        transaction.call.contract = approval.to.bytes();
        transaction.call.data = approval.calldata.clone().into();
        transaction.fee_limit_sun = LIMITS.approval_sun;
    });
    let signed = signed.check().unwrap();
    signed.require_step(&steps(), &LIMITS, before_expiration()).unwrap();
    // A wallet that has approved enough gets no approval.
    let approved = PaymentTransactions {
        approvals: Vec::new(),
        ..steps()
    };
    let refused = errors(signed.require_step(&approved, &LIMITS, before_expiration()));
    assert!(
        refused[0]
            .1
            .starts_with("must call TCUDPYnS9dH3WvFEaE7wN7vnDa51J4R4fd, a"),
        "{refused:?}"
    );
}

#[test]
fn every_changed_byte_of_a_signed_transaction_is_refused() {
    let whole = sent(0);
    let raw_data = hex::decode(&whole.raw_data_hex).unwrap();
    for place in 0..raw_data.len() {
        let mut changed = raw_data.clone();
        changed[place] ^= 1;
        let changed = SentTransaction {
            raw_data_hex: hex::encode(changed),
            ..whole.clone()
        };
        changed.check().unwrap_err();
    }
    let signature = hex::decode(&whole.signatures[0]).unwrap();
    for place in 0..signature.len() {
        let mut changed = signature.clone();
        changed[place] ^= 1;
        let changed = SentTransaction {
            signatures: vec![hex::encode(changed)],
            ..whole.clone()
        };
        assert_eq!(refused(&changed).0, "signedTransaction.signature[0]");
    }
}

#[test]
fn a_payment_with_another_word_is_refused_with_its_name() {
    for (place, name) in PAYMENT_WORDS.into_iter().enumerate() {
        let message = no_step(&signed_after(|transaction| replace_word(transaction, place)));
        let end = "differs: get the calldata again and sign that transaction";
        let expected = format!("must have the calldata of this payment; the {name} {end}");
        assert_eq!(message, expected);
    }
    let other_link = no_step(&sent(1));
    assert!(other_link.contains("the amount differs"), "{other_link}");
}

#[test]
fn an_approval_with_another_word_is_refused_with_its_name() {
    for (place, name) in APPROVAL_WORDS.into_iter().enumerate() {
        let message = no_step(&signed_after(|transaction| {
            let approval = steps().approvals.remove(0);
            transaction.call.contract = approval.to.bytes();
            transaction.call.data = approval.calldata.into();
            replace_word(transaction, place);
        }));
        assert!(message.contains(&format!("the {name} differs")), "{message}");
    }
}

#[test]
fn another_function_contract_value_or_length_is_refused() {
    for (change, expected) in [
        (
            (|transaction| transaction.call.data = Bytes::from(vec![0x09, 0x5e])) as fn(&mut TronTransaction),
            "the function differs",
        ),
        (
            |transaction| {
                let mut data = transaction.call.data.to_vec();
                data[0] ^= 1;
                transaction.call.data = data.into();
            },
            "the function differs",
        ),
        (
            |transaction| {
                let data = [transaction.call.data.as_ref(), &[0; 32]].concat();
                transaction.call.data = data.into();
            },
            "the length differs",
        ),
        (
            |transaction| transaction.call.contract = tron("THK5rNmrvCujhmrXa5DB1dASepwXTr9cJs").bytes(),
            "must call TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t or TCUDPYnS9dH3WvFEaE7wN7vnDa51J4R4fd, a contract of this \
             payment, and calls THK5rNmrvCujhmrXa5DB1dASepwXTr9cJs",
        ),
    ] {
        let message = no_step(&signed_after(change));
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn a_call_that_sends_coins_or_another_token_is_refused() {
    let with_value = |name: &str, change: fn(&mut TronCall)| {
        let mut sent = signed_after(|transaction| change(&mut transaction.call));
        let call = decoded(&sent.raw_data_hex).call;
        let stated = call.value_sun.max(call.token_value).max(call.token_id);
        *member(&mut sent.raw_data, "value", name) = StatedValue::Integer(stated);
        no_step(&sent)
    };
    assert_eq!(
        with_value("call_value", |call| call.value_sun = 5),
        "must send the call_value of this payment, which is 0 sun, and sends 5 sun"
    );
    let no_token = "must send no TRC-10 token: call_token_value and token_id must be absent";
    assert_eq!(with_value("call_token_value", |call| call.token_value = 1), no_token);
    assert_eq!(with_value("token_id", |call| call.token_id = 1_000_001), no_token);
}

#[test]
fn a_fee_limit_above_the_cap_of_its_step_is_refused() {
    let above = signed_after(|transaction| transaction.fee_limit_sun = 300_000_001);
    assert_eq!(
        no_step(&above),
        "must have a fee_limit of at most 300000000 sun for this step, and has 300000001 sun"
    );
    let approval = steps().approvals.remove(0);
    let above = signed_after(|transaction| {
        transaction.call.contract = approval.to.bytes();
        transaction.call.data = approval.calldata.into();
    });
    assert_eq!(
        no_step(&above),
        "must have a fee_limit of at most 100000000 sun for this step, and has 300000000 sun"
    );
}

#[test]
fn a_transaction_at_its_expiration_is_refused() {
    let signed = sent(0).check().unwrap();
    let at = DateTime::from_timestamp_millis(1_790_000_060_000).unwrap();
    let refused = errors(signed.require_step(&steps(), &LIMITS, at));
    let expected = "must not have expired, and expired at 2026-09-21T14:14:20.000Z: get the calldata again and sign \
                    that transaction";
    assert_eq!(refused, [(RAW_DATA_HEX.to_owned(), expected.to_owned())]);
}

#[test]
fn signatures_of_others_and_of_several_keys_are_refused() {
    let other = PrivateKeySigner::from_bytes(&keccak256("another wallet")).unwrap();
    let transaction = decoded(&sent(0).raw_data_hex);
    let (field, message) = refused(&signed_by(&other, &transaction));
    assert_eq!(field, "signedTransaction.signature[0]");
    let signer = Address::Tron(other.address());
    let start =
        format!("must be the signature of the owner TQu6q2b9ctdY7tJH3EEX68ys3ywRvrbEz1, and is one of {signer}: ");
    assert!(message.starts_with(&start), "{message}");
    let own = sent(0).signatures.remove(0);
    let twice = SentTransaction {
        signatures: vec![own.clone(), own.clone()],
        ..sent(0)
    };
    let several = "must have one signature, and has 2: a wallet with several keys broadcasts its transaction itself";
    assert_eq!(refused(&twice), (SIGNATURE.to_owned(), several.to_owned()));
    for malformed in [
        own[2..].to_owned(),
        format!("{own}00"),
        own[1..].to_owned(),
        "00".repeat(65),
    ] {
        let malformed = SentTransaction {
            signatures: vec![malformed],
            ..sent(0)
        };
        let (field, message) = refused(&malformed);
        assert_eq!(field, "signedTransaction.signature[0]");
        assert!(message.starts_with("must have 65 bytes"), "{message}");
    }
}

#[test]
fn a_permission_other_than_that_of_the_owner_is_refused() {
    let mut with_permission = signed_after(|transaction| transaction.permission_id = 2);
    let StatedValue::Object(contract) = contract(&mut with_permission.raw_data) else {
        unreachable!()
    };
    contract.push(("Permission_id".to_owned(), StatedValue::Integer(2)));
    let (field, message) = refused(&with_permission);
    assert_eq!(field, RAW_DATA_HEX);
    assert!(
        message.contains("without Permission_id, and has 2: a wallet"),
        "{message}"
    );
}

#[test]
fn two_contracts_are_refused() {
    let raw_data = hex::decode(sent(0).raw_data_hex).unwrap();
    let start = raw_data.iter().position(|byte| *byte == 0x5a).unwrap();
    let end = start + 3 + 368;
    let contract = &raw_data[start..end];
    let doubled = [&raw_data[..end], contract, &raw_data[end..]].concat();
    let doubled = SentTransaction {
        raw_data_hex: hex::encode(doubled),
        ..sent(0)
    };
    let expected = "must contain exactly one contract call";
    assert_eq!(refused(&doubled), (RAW_DATA_HEX.to_owned(), expected.to_owned()));
    let mut said_twice = sent(0);
    let again = contract_list(&mut said_twice.raw_data)[0].clone();
    contract_list(&mut said_twice.raw_data).push(again);
    assert_eq!(refused(&said_twice).0, "signedTransaction.raw_data.contract");
}

#[test]
fn unreadable_bytes_and_another_hash_are_refused() {
    for raw_data_hex in ["0", "zz", "0x00", ""] {
        let unreadable = SentTransaction {
            raw_data_hex: raw_data_hex.to_owned(),
            ..sent(0)
        };
        assert_eq!(refused(&unreadable).0, RAW_DATA_HEX, "{raw_data_hex}");
    }
    let other_hash = SentTransaction {
        tx_id: sent(1).tx_id,
        ..sent(0)
    };
    let (field, message) = refused(&other_hash);
    let hash = sent(0).tx_id.unwrap();
    assert_eq!(field, TX_ID);
    assert_eq!(
        message,
        format!("must be {hash}, the SHA-256 hash of raw_data_hex, or absent")
    );
}

/// The list of contracts of a JSON form.
fn contract_list(raw_data: &mut StatedValue) -> &mut Vec<StatedValue> {
    match find(raw_data, "contract") {
        StatedValue::List(contracts) => contracts,
        _ => unreachable!(),
    }
}

fn contract(raw_data: &mut StatedValue) -> &mut StatedValue {
    &mut contract_list(raw_data)[0]
}

fn find<'a>(object: &'a mut StatedValue, name: &str) -> &'a mut StatedValue {
    let StatedValue::Object(members) = object else {
        unreachable!()
    };
    if !members.iter().any(|(known, _)| known == name) {
        members.push((name.to_owned(), StatedValue::Other));
    }
    let found = members.iter_mut().find(|(known, _)| known == name);
    &mut found.unwrap().1
}

/// A member of a part of a JSON form, which is created if it is missing.
fn member<'a>(raw_data: &'a mut StatedValue, part: &str, name: &str) -> &'a mut StatedValue {
    let part = match part {
        "" => raw_data,
        "contract" => contract(raw_data),
        "parameter" => find(contract(raw_data), "parameter"),
        _ => find(find(contract(raw_data), "parameter"), "value"),
    };
    find(part, name)
}

#[test]
fn one_node_that_has_the_transaction_is_sufficient() {
    use BroadcastOutcome::{Accepted, AlreadyKnown, Refused, Unavailable};
    let (first, second) = (
        Refused(BroadcastRefusal::ReferenceBlock),
        Refused(BroadcastRefusal::Size),
    );
    for (responses, expected) in [
        (vec![], Unavailable),
        (vec![Unavailable, Unavailable], Unavailable),
        (vec![Unavailable, first, second], first),
        (vec![first, AlreadyKnown, Unavailable], AlreadyKnown),
        (vec![first, AlreadyKnown, Accepted], Accepted),
    ] {
        assert_eq!(BroadcastOutcome::of_nodes(responses.clone()), expected, "{responses:?}");
    }
}

#[test]
fn a_reference_block_does_not_change_the_step() {
    let other_block = signed_after(|transaction| {
        transaction.reference_block = ReferenceBlock::of_block(&keccak256("a block"));
        transaction.timestamp_ms += 1;
    });
    let signed = other_block.check().unwrap();
    signed.require_step(&steps(), &LIMITS, before_expiration()).unwrap();
    assert_ne!(Some(hex::encode(signed.tx_id())), sent(0).tx_id);
}
