//! Compares the JSON form of a transaction with its encoding.
//!
//! The form is that of tronweb and of nodes. A member whose field is not in the encoding may be absent, 0 or empty: some
//! wallets write all fields of a transaction, for example `scripts` and `auths`.

use super::super::super::{
    address::{Address, TRON_PREFIX},
    refusal::Checks,
    tron::TronTransaction,
};
use alloy::primitives::Address as EvmAddress;

/// A value of JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StatedValue {
    /// An integer of at least 0.
    Integer(u64),
    /// A string.
    Text(String),
    /// A list.
    List(Vec<StatedValue>),
    /// An object: its members with their names.
    Object(Vec<(String, StatedValue)>),
    /// Any other value.
    Other,
}

impl StatedValue {
    /// Whether the value is that of a field that an encoding does not have.
    fn is_empty(&self) -> bool {
        match self {
            Self::Integer(integer) => *integer == 0,
            Self::Text(text) => text.is_empty(),
            Self::List(items) => items.is_empty(),
            Self::Object(members) => members.is_empty(),
            Self::Other => false,
        }
    }
}

/// What the JSON form has to say.
enum ExpectedValue {
    Integer(u64),
    Text(&'static str),
    Hex(Vec<u8>),
    Account(EvmAddress),
    List(Vec<ExpectedValue>),
    Object(Vec<(&'static str, ExpectedValue)>),
}

/// Records each member that says something else than the transaction, that the transaction does not have, or that is
/// missing.
pub(super) fn compare(transaction: &TronTransaction, stated: &StatedValue, field: &str, checks: &mut Checks) {
    expected(transaction).compare(stated, field, checks);
}

fn expected(transaction: &TronTransaction) -> ExpectedValue {
    use ExpectedValue::{Account, Hex, Integer, List, Object, Text};
    let call = &transaction.call;
    let value = Object(vec![
        ("owner_address", Account(call.owner)),
        ("contract_address", Account(call.contract)),
        ("call_value", Integer(call.value_sun)),
        ("data", Hex(call.data.to_vec())),
        ("call_token_value", Integer(call.token_value)),
        ("token_id", Integer(call.token_id)),
    ]);
    let parameter = Object(vec![
        ("type_url", Text("type.googleapis.com/protocol.TriggerSmartContract")),
        ("value", value),
    ]);
    let contract = Object(vec![
        ("type", Text("TriggerSmartContract")),
        ("parameter", parameter),
        ("Permission_id", Integer(transaction.permission_id.into())),
    ]);
    let block = &transaction.reference_block;
    Object(vec![
        ("contract", List(vec![contract])),
        ("ref_block_bytes", Hex(block.number_bytes.to_vec())),
        ("ref_block_hash", Hex(block.hash_bytes.to_vec())),
        ("expiration", Integer(transaction.expiration_ms)),
        ("timestamp", Integer(transaction.timestamp_ms)),
        ("fee_limit", Integer(transaction.fee_limit_sun)),
    ])
}

impl ExpectedValue {
    fn compare(&self, stated: &StatedValue, field: &str, checks: &mut Checks) {
        let is_same = match (self, stated) {
            (Self::Integer(expected), StatedValue::Integer(stated)) => expected == stated,
            (Self::Text(expected), StatedValue::Text(stated)) => expected == stated,
            (Self::Hex(expected), StatedValue::Text(stated)) => stated.eq_ignore_ascii_case(&hex::encode(expected)),
            (Self::Account(expected), StatedValue::Text(stated)) => is_account(*expected, stated),
            (Self::List(expected), StatedValue::List(stated)) => {
                for (place, (expected, stated)) in expected.iter().zip(stated).enumerate() {
                    expected.compare(stated, &format!("{field}[{place}]"), checks);
                }
                expected.len() == stated.len()
            }
            (Self::Object(expected), StatedValue::Object(stated)) => {
                compare_members(expected, stated, field, checks);
                true
            }
            _ => false,
        };
        if !is_same {
            checks.fail(field, "must say the same as raw_data_hex, which alone was signed");
        }
    }

    /// Whether the encoding has no such field.
    fn is_left_out(&self) -> bool {
        match self {
            Self::Integer(integer) => *integer == 0,
            Self::Hex(bytes) => bytes.is_empty(),
            _ => false,
        }
    }
}

fn compare_members(
    expected: &[(&'static str, ExpectedValue)],
    stated: &[(String, StatedValue)],
    field: &str,
    checks: &mut Checks,
) {
    for (name, value) in expected {
        match stated.iter().find(|(stated, _)| stated == name) {
            Some((_, stated)) => value.compare(stated, &format!("{field}.{name}"), checks),
            None if value.is_left_out() => {}
            None => checks.fail(format!("{field}.{name}"), "is required: raw_data_hex has this field"),
        }
    }
    for (name, value) in stated {
        let is_known = expected.iter().any(|(known, _)| known == name);
        if !is_known && !value.is_empty() {
            checks.fail(
                format!("{field}.{name}"),
                "must be absent or empty: raw_data_hex has no such field",
            );
        }
    }
}

/// Whether a text is an address, in hexadecimal digits with the prefix of the network or in Base58.
fn is_account(expected: EvmAddress, stated: &str) -> bool {
    let digits = hex::encode([&[TRON_PREFIX], expected.as_slice()].concat());
    stated.eq_ignore_ascii_case(&digits) || stated == Address::Tron(expected).to_string()
}
