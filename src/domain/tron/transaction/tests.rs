//! Tests of transactions: vectors, refusals, and random transactions.

use super::*;
use crate::domain::address::Address;
use proptest::prelude::*;
use serde_json::Value;

/// Transactions that tronweb 6.5.1 encoded and signed.
const BY_TRONWEB: &str = include_str!("../../../../tests/vectors/tron-transactions.json");

/// Published headers, and transactions of other types.
const PUBLISHED: &str = include_str!("../../../../tests/vectors/tron-headers.json");

fn list(file: &str, name: &str) -> Vec<Value> {
    let file: Value = serde_json::from_str(file).unwrap();
    file[name].as_array().unwrap().clone()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

fn account(value: &Value) -> Address {
    Address::parse(text(value)).unwrap()
}

/// The transaction of a vector, from its parameters.
fn described(case: &Value) -> TronTransaction {
    let block = &case["blockHeader"];
    TronTransaction {
        reference_block: ReferenceBlock {
            number_bytes: hex::decode_to_array(text(&block["ref_block_bytes"])).unwrap(),
            hash_bytes: hex::decode_to_array(text(&block["ref_block_hash"])).unwrap(),
        },
        expiration_ms: block["expiration"].as_u64().unwrap(),
        timestamp_ms: block["timestamp"].as_u64().unwrap(),
        fee_limit_sun: case["feeLimit"].as_u64().unwrap(),
        permission_id: 0,
        call: TronCall {
            owner: account(&case["owner"]).bytes(),
            contract: account(&case["contract"]).bytes(),
            value_sun: 0,
            data: text(&case["data"]).parse().unwrap(),
            token_value: 0,
            token_id: 0,
        },
    }
}

/// A transaction in which no field has its default value.
fn sample() -> TronTransaction {
    TronTransaction {
        reference_block: ReferenceBlock {
            number_bytes: [0xc7, 0xa1],
            hash_bytes: [1, 2, 3, 4, 5, 6, 7, 8],
        },
        expiration_ms: 1_790_000_060_000,
        timestamp_ms: 1_790_000_000_000,
        fee_limit_sun: 300_000_000,
        permission_id: 2,
        call: TronCall {
            owner: EvmAddress::repeat_byte(0xa3),
            contract: EvmAddress::repeat_byte(0x1b),
            value_sun: 7,
            data: Bytes::from_static(&[0xc2, 0x19, 0xa1, 0x4d]),
            token_value: 8,
            token_id: 1_000_001,
        },
    }
}

#[test]
fn transactions_of_tronweb_are_equal_in_both_directions() {
    let cases = list(BY_TRONWEB, "cases");
    assert_eq!(cases.len(), 2);
    for case in &cases {
        let transaction = described(case);
        let raw = hex::decode(text(&case["raw_data_hex"])).unwrap();
        assert_eq!(transaction.encode(), raw);
        assert_eq!(TronTransaction::decode(&raw), Ok(transaction.clone()));
        assert_eq!(transaction.tx_id(), text(&case["txID"]).parse::<B256>().unwrap());
    }
}

#[test]
fn the_reference_is_that_of_a_published_transaction_to_a_published_block() {
    let headers = list(PUBLISHED, "headers");
    let block = headers.iter().find(|header| header["number"] == 30_864_542).unwrap();
    let reference = ReferenceBlock::of_block(&text(&block["blockId"]).parse().unwrap());
    let mut raw = MessageWriter::default();
    raw.write_bytes(raw_field::REF_BLOCK_BYTES, &reference.number_bytes);
    raw.write_bytes(raw_field::REF_BLOCK_HASH, &reference.hash_bytes);
    let transactions = list(PUBLISHED, "transactions");
    let transaction = transactions
        .iter()
        .find(|transaction| transaction["block"] == 30_864_544);
    let published = text(&transaction.unwrap()["raw_data_hex"]);
    assert!(published.starts_with(&hex::encode(raw.into_bytes())));
}

#[test]
fn published_transactions_of_other_types_are_refused() {
    let decoded = list(PUBLISHED, "transactions").into_iter().map(|transaction| {
        let raw = hex::decode(text(&transaction["raw_data_hex"])).unwrap();
        TronTransaction::decode(&raw).unwrap_err()
    });
    // The second transaction is a transfer too, and has a memo before it.
    let expected = [TronDecodeError::ContractType, TronDecodeError::Memo];
    assert_eq!(decoded.collect::<Vec<_>>(), expected);
}

/// A field of a message that a test changes.
#[derive(Debug, Clone)]
enum ChangedField {
    Integer(u32, u64),
    ByteString(u32, Vec<u8>),
}

use ChangedField::{ByteString, Integer};

fn fields(message: &[u8]) -> Vec<ChangedField> {
    let mut reader = FieldReader::new(message);
    let mut fields = Vec::new();
    while let Some((number, value)) = reader.next_field().unwrap() {
        fields.push(match value {
            WireValue::Integer(value) => Integer(number, value),
            WireValue::Bytes(value) => ByteString(number, value.to_vec()),
        });
    }
    fields
}

/// Writes fields in any order, and also those that the canonical encoding leaves out.
fn message(fields: &[ChangedField]) -> Vec<u8> {
    let mut writer = MessageWriter::default();
    for field in fields {
        match field {
            Integer(number, value) => writer.write_present_integer(*number, *value),
            ByteString(number, value) => writer.write_present_bytes(*number, value),
        }
    }
    writer.into_bytes()
}

/// The path to the contract, to its parameter, and to the call.
const CONTRACT: &[u32] = &[raw_field::CONTRACT];
const PARAMETER: &[u32] = &[raw_field::CONTRACT, contract_field::PARAMETER];
const CALL: &[u32] = &[raw_field::CONTRACT, contract_field::PARAMETER, parameter_field::VALUE];

/// The encoding with changed fields in the nested message at the path.
fn changed(encoding: &[u8], path: &[u32], change: impl FnOnce(&mut Vec<ChangedField>)) -> Vec<u8> {
    let mut all = fields(encoding);
    match path.split_first() {
        None => change(&mut all),
        Some((step, rest)) => {
            let nested = all.iter_mut().find_map(|field| match field {
                ByteString(number, value) if number == step => Some(value),
                _ => None,
            });
            let nested = nested.unwrap();
            *nested = changed(nested, rest, change);
        }
    }
    message(&all)
}

/// The error for the sample, with this field in the place of the field with the same number. A field that the sample
/// does not have is added where its number belongs.
fn error_with(path: &[u32], field: ChangedField) -> TronDecodeError {
    let number_of = |field: &ChangedField| match field {
        Integer(number, _) | ByteString(number, _) => *number,
    };
    let bytes = changed(&sample().encode(), path, |all| {
        all.retain(|other| number_of(other) != number_of(&field));
        let place = all.partition_point(|other| number_of(other) < number_of(&field));
        all.insert(place, field);
    });
    TronTransaction::decode(&bytes).unwrap_err()
}

/// The error for the sample without a field.
fn error_without(path: &[u32], number: u32) -> TronDecodeError {
    let bytes = changed(&sample().encode(), path, |all| {
        all.retain(|field| !matches!(field, Integer(other, _) | ByteString(other, _) if *other == number));
    });
    TronTransaction::decode(&bytes).unwrap_err()
}

#[test]
fn a_transaction_with_every_field_round_trips() {
    let transaction = sample();
    assert_eq!(TronTransaction::decode(&transaction.encode()), Ok(transaction));
}

#[test]
fn zeros_are_left_out_and_round_trip() {
    let mut transaction = sample();
    transaction.reference_block = ReferenceBlock::of_block(&B256::ZERO);
    (
        transaction.expiration_ms,
        transaction.timestamp_ms,
        transaction.fee_limit_sun,
    ) = (0, 0, 0);
    transaction.permission_id = 0;
    transaction.call = TronCall {
        owner: EvmAddress::ZERO,
        contract: EvmAddress::ZERO,
        value_sun: 0,
        data: Bytes::new(),
        token_value: 0,
        token_id: 0,
    };
    let encoding = transaction.encode();
    assert_eq!(fields(&encoding).len(), 3);
    assert_eq!(TronTransaction::decode(&encoding), Ok(transaction));
}

#[test]
fn a_transaction_contains_exactly_one_call() {
    let twice = changed(&sample().encode(), &[], |all| {
        let contract = all[3].clone();
        all.insert(3, contract);
    });
    assert_eq!(TronTransaction::decode(&twice), Err(TronDecodeError::ContractCount));
    assert_eq!(error_without(&[], raw_field::CONTRACT), TronDecodeError::ContractCount);
    assert_eq!(TronTransaction::decode(&[]), Err(TronDecodeError::ContractCount));
    assert_eq!(
        TronDecodeError::ContractCount.to_string(),
        "must contain exactly one contract call"
    );
}

#[test]
fn fields_that_change_a_transaction_in_other_ways_are_refused() {
    let memo = error_with(&[], ByteString(10, b"memo".to_vec()));
    assert_eq!(memo, TronDecodeError::Memo);
    for (path, field, name) in [
        (&[][..], Integer(3, 1), "ref_block_num of Transaction.raw"),
        (&[], ByteString(9, vec![1]), "auths of Transaction.raw"),
        (&[], ByteString(12, vec![1]), "scripts of Transaction.raw"),
        (CONTRACT, ByteString(3, vec![1]), "provider of Transaction.Contract"),
        (CONTRACT, ByteString(4, vec![1]), "ContractName of Transaction.Contract"),
    ] {
        let error = error_with(path, field).to_string();
        assert_eq!(error, format!("must not contain {name}, which is not supported"));
    }
}

#[test]
fn unknown_fields_of_every_message_are_refused() {
    for (path, number, message) in [
        (&[][..], 2, "Transaction.raw"),
        (&[], 19, "Transaction.raw"),
        (CONTRACT, 6, "Transaction.Contract"),
        (PARAMETER, 3, "google.protobuf.Any"),
        (CALL, 7, "TriggerSmartContract"),
    ] {
        let expected = TronDecodeError::UnknownField { message, number };
        assert_eq!(error_with(path, Integer(number, 1)), expected);
        assert_eq!(error_with(path, ByteString(number, vec![1])), expected);
    }
}

#[test]
fn other_contract_types_are_refused() {
    // The third number has the same low 32 bits as the right one.
    for contract_type in [1, 30, (1 << 32) + 31, u64::MAX] {
        let error = error_with(CONTRACT, Integer(contract_field::TYPE, contract_type));
        assert_eq!(error, TronDecodeError::ContractType, "{contract_type}");
    }
    assert_eq!(
        error_without(CONTRACT, contract_field::TYPE),
        TronDecodeError::ContractType
    );
    for type_url in ["type.googleapis.com/protocol.TransferContract", "TriggerSmartContract"] {
        let field = ByteString(parameter_field::TYPE_URL, type_url.as_bytes().to_vec());
        assert_eq!(error_with(PARAMETER, field), TronDecodeError::TypeUrl, "{type_url}");
    }
    assert_eq!(
        error_without(PARAMETER, parameter_field::TYPE_URL),
        TronDecodeError::TypeUrl
    );
    assert_eq!(
        error_without(CONTRACT, contract_field::PARAMETER),
        TronDecodeError::TypeUrl
    );
}

#[test]
fn addresses_of_another_form_are_refused() {
    for (number, field) in [(1, "owner_address"), (2, "contract_address")] {
        let expected = TronDecodeError::AddressForm { field };
        for (prefix, length) in [(0x41, 20), (0x41, 22), (0xa0, 21), (0x00, 21)] {
            let mut address = vec![7; length];
            address[0] = prefix;
            assert_eq!(
                error_with(CALL, ByteString(number, address)),
                expected,
                "{prefix} {length}"
            );
        }
        assert_eq!(error_without(CALL, number), expected);
    }
    let no_call = error_without(PARAMETER, parameter_field::VALUE);
    assert_eq!(no_call, TronDecodeError::AddressForm { field: "owner_address" });
}

#[test]
fn references_of_another_length_are_refused() {
    for (number, field, length) in [(1, "ref_block_bytes", 2), (4, "ref_block_hash", 8)] {
        let expected = TronDecodeError::Length { field, length };
        for other in [length - 1, length + 1] {
            assert_eq!(error_with(&[], ByteString(number, vec![1; other])), expected);
        }
        assert_eq!(error_without(&[], number), expected);
    }
}

#[test]
fn negative_numbers_are_refused() {
    let negative = 1_i64.wrapping_neg().cast_unsigned();
    for (path, number, field) in [
        (&[][..], 8, "expiration"),
        (&[], 14, "timestamp"),
        (&[], 18, "fee_limit"),
        (CALL, 3, "call_value"),
        (CALL, 5, "call_token_value"),
        (CALL, 6, "token_id"),
    ] {
        let expected = TronDecodeError::Range { field, max: INT64_MAX };
        for value in [negative, INT64_MAX + 1] {
            assert_eq!(error_with(path, Integer(number, value)), expected);
        }
    }
    let expected = TronDecodeError::Range {
        field: "Permission_id",
        max: INT32_MAX.into(),
    };
    // The last number has the low 32 bits of a valid id.
    for value in [negative, u64::from(INT32_MAX) + 1, (1 << 32) + 2] {
        assert_eq!(error_with(CONTRACT, Integer(5, value)), expected);
    }
}

#[test]
fn fields_of_the_wrong_kind_are_refused() {
    for (path, numbers) in [(&[][..], &[8, 14, 18][..]), (CONTRACT, &[1, 5]), (CALL, &[3, 5, 6])] {
        for number in numbers {
            let error = error_with(path, ByteString(*number, vec![1]));
            assert_eq!(error, TronDecodeError::Malformed, "{path:?} {number}");
        }
    }
    for (path, numbers) in [
        (&[][..], &[1, 4, 11][..]),
        (CONTRACT, &[2]),
        (PARAMETER, &[1, 2]),
        (CALL, &[1, 2, 4]),
    ] {
        for number in numbers {
            let error = error_with(path, Integer(*number, 1));
            assert_eq!(error, TronDecodeError::Malformed, "{path:?} {number}");
        }
    }
}

#[test]
fn repeated_reordered_and_default_fields_are_refused() {
    let encoding = sample().encode();
    let mut checked = 0;
    for path in [&[][..], CONTRACT, PARAMETER, CALL] {
        let mut count = 0;
        changed(&encoding, path, |all| count = all.len());
        for index in 0..count {
            let repeated = changed(&encoding, path, |all| {
                let field = all[index].clone();
                all.insert(index, field);
            });
            let moved = changed(&encoding, path, |all| all.rotate_left(index));
            let emptied = changed(&encoding, path, |all| match &mut all[index] {
                Integer(_, value) => *value = 0,
                ByteString(_, value) => value.clear(),
            });
            let is_contract = path.is_empty() && index == 3;
            let twice = if is_contract {
                TronDecodeError::ContractCount
            } else {
                TronDecodeError::NonCanonical
            };
            assert_eq!(TronTransaction::decode(&repeated), Err(twice), "{path:?} {index}");
            if index > 0 {
                let decoded = TronTransaction::decode(&moved);
                assert_eq!(decoded, Err(TronDecodeError::NonCanonical), "{path:?} {index}");
            }
            let decoded = TronTransaction::decode(&emptied);
            assert_eq!(decoded, Err(TronDecodeError::NonCanonical), "{path:?} {index}");
            checked += 1;
        }
    }
    assert_eq!(checked, 6 + 3 + 2 + 6);
}

#[test]
fn parts_of_an_encoding_are_refused() {
    let encoding = sample().encode();
    for length in 0..encoding.len() {
        let part = TronTransaction::decode(&encoding[..length]);
        // The last fields may be absent, so an encoding that ends before one of them is another transaction.
        assert_ne!(part, Ok(sample()), "{length}");
        assert!(part.is_err() || part.is_ok_and(|other| other.encode() == encoding[..length]));
    }
}

#[test]
fn integers_that_are_too_large_for_a_node_do_not_round_trip() {
    let mut transaction = sample();
    transaction.fee_limit_sun = INT64_MAX + 1;
    assert!(TronTransaction::decode(&transaction.encode()).is_err());
    let mut transaction = sample();
    transaction.permission_id = INT32_MAX + 1;
    assert!(TronTransaction::decode(&transaction.encode()).is_err());
}

/// Integers of every length up to the largest.
fn any_integer() -> impl Strategy<Value = u64> {
    (0..=INT64_MAX, 0_u32..64).prop_map(|(value, shift)| value >> shift)
}

prop_compose! {
    fn any_transaction()(
        (number_bytes, hash_bytes) in any::<([u8; 2], [u8; 8])>(),
        (expiration_ms, timestamp_ms, fee_limit_sun) in (any_integer(), any_integer(), any_integer()),
        (value_sun, token_value, token_id) in (any_integer(), any_integer(), any_integer()),
        permission_id in prop_oneof![0..=3_u32, 0..=INT32_MAX],
        (owner, contract) in any::<([u8; 20], [u8; 20])>(),
        data in proptest::collection::vec(any::<u8>(), 0..300),
    ) -> TronTransaction {
        TronTransaction {
            reference_block: ReferenceBlock { number_bytes, hash_bytes },
            expiration_ms,
            timestamp_ms,
            fee_limit_sun,
            permission_id,
            call: TronCall {
                owner: owner.into(),
                contract: contract.into(),
                value_sun,
                data: data.into(),
                token_value,
                token_id,
            },
        }
    }
}

proptest! {
    #[test]
    fn every_transaction_round_trips(transaction in any_transaction()) {
        let encoding = transaction.encode();
        prop_assert_eq!(transaction.tx_id(), sha256(&encoding));
        prop_assert_eq!(TronTransaction::decode(&encoding), Ok(transaction));
    }

    #[test]
    fn every_changed_byte_is_refused_or_changes_the_transaction(transaction in any_transaction(), change in 1_u8..) {
        let mut encoding = transaction.encode();
        for index in 0..encoding.len() {
            encoding[index] ^= change;
            if let Ok(other) = TronTransaction::decode(&encoding) {
                prop_assert_ne!(&other, &transaction);
                prop_assert_eq!(&other.encode(), &encoding);
            }
            encoding[index] ^= change;
        }
    }

    #[test]
    fn inserted_and_removed_bytes_are_refused_or_change_the_transaction(
        transaction in any_transaction(),
        position in any::<prop::sample::Index>(),
        inserted in any::<u8>(),
    ) {
        let encoding = transaction.encode();
        let position = position.index(encoding.len());
        let mut longer = encoding.clone();
        longer.insert(position, inserted);
        let mut shorter = encoding;
        shorter.remove(position);
        for other in [longer, shorter] {
            if let Ok(decoded) = TronTransaction::decode(&other) {
                prop_assert_eq!(decoded.encode(), other);
            }
        }
    }

    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(TronTransaction::decode(&bytes).is_err());
    }
}
