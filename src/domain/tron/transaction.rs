//! Transactions that call one contract: encoding, id, and strict decoding.

use super::{
    sha256,
    wire::{FieldReader, MessageWriter, WireFlaw, WireValue, find_field},
};
use crate::domain::address::TRON_PREFIX;
use alloy::primitives::{Address as EvmAddress, B256, Bytes};

/// Contract type of a call.
const TRIGGER_SMART_CONTRACT: u64 = 31;

/// Type of the parameter of a call.
const TYPE_URL: &str = "type.googleapis.com/protocol.TriggerSmartContract";

/// Largest value of an `int64`.
const INT64_MAX: u64 = i64::MAX.cast_unsigned();

/// Largest value of an `int32`.
const INT32_MAX: u32 = i32::MAX.cast_unsigned();

/// Numbers of the fields of `Transaction.raw`.
mod raw_field {
    pub(super) const REF_BLOCK_BYTES: u32 = 1;
    pub(super) const REF_BLOCK_NUM: u32 = 3;
    pub(super) const REF_BLOCK_HASH: u32 = 4;
    pub(super) const EXPIRATION: u32 = 8;
    pub(super) const AUTHS: u32 = 9;
    pub(super) const DATA: u32 = 10;
    pub(super) const CONTRACT: u32 = 11;
    pub(super) const SCRIPTS: u32 = 12;
    pub(super) const TIMESTAMP: u32 = 14;
    pub(super) const FEE_LIMIT: u32 = 18;
}

/// Numbers of the fields of `Transaction.Contract`.
mod contract_field {
    pub(super) const TYPE: u32 = 1;
    pub(super) const PARAMETER: u32 = 2;
    pub(super) const PROVIDER: u32 = 3;
    pub(super) const CONTRACT_NAME: u32 = 4;
    pub(super) const PERMISSION_ID: u32 = 5;
}

/// Numbers of the fields of `google.protobuf.Any`.
mod parameter_field {
    pub(super) const TYPE_URL: u32 = 1;
    pub(super) const VALUE: u32 = 2;
}

/// Numbers of the fields of `TriggerSmartContract`.
mod call_field {
    pub(super) const OWNER_ADDRESS: u32 = 1;
    pub(super) const CONTRACT_ADDRESS: u32 = 2;
    pub(super) const CALL_VALUE: u32 = 3;
    pub(super) const DATA: u32 = 4;
    pub(super) const CALL_TOKEN_VALUE: u32 = 5;
    pub(super) const TOKEN_ID: u32 = 6;
}

/// Why bytes are not a transaction that [`TronTransaction::decode`] returns. Each text continues the name of the field
/// that contains the transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TronDecodeError {
    /// The bytes are not a protobuf message with the kinds of fields of a transaction.
    #[error("must be the protobuf encoding of the raw data of a Tron transaction")]
    Malformed,
    /// The same transaction has another encoding, which is the canonical one.
    #[error(
        "must be in the canonical encoding: fields in ascending order and once, integers in their shortest form, and \
         no empty or zero fields"
    )]
    NonCanonical,
    /// A field that this service does not know.
    #[error("must not contain field {number} of {message}, which is unknown")]
    UnknownField {
        /// Name of the message.
        message: &'static str,
        /// Number of the field.
        number: u32,
    },
    /// A memo.
    #[error("must not contain a memo (field data of Transaction.raw)")]
    Memo,
    /// Another field that changes the transaction in a way that this service does not support.
    #[error("must not contain {field} of {message}, which is not supported")]
    UnsupportedField {
        /// Name of the message.
        message: &'static str,
        /// Name of the field.
        field: &'static str,
    },
    /// No contract call, or several.
    #[error("must contain exactly one contract call")]
    ContractCount,
    /// A transfer of coins, a vote, or another contract type.
    #[error("must call a smart contract: its contract type must be 31, TriggerSmartContract")]
    ContractType,
    /// The parameter has another type than the contract.
    #[error("must have a contract parameter with the type_url {TYPE_URL}")]
    TypeUrl,
    /// An address of another form.
    #[error("must have an address of 21 bytes in {field}, the first of which is hexadecimal 41")]
    AddressForm {
        /// Name of the field.
        field: &'static str,
    },
    /// A byte string of another length.
    #[error("must have {length} bytes in {field}")]
    Length {
        /// Name of the field.
        field: &'static str,
        /// Its number of bytes.
        length: usize,
    },
    /// A negative number, or a number that is too large for its field.
    #[error("must have a number from 0 to {max} in {field}")]
    Range {
        /// Name of the field.
        field: &'static str,
        /// Largest value of the field.
        max: u64,
    },
}

impl From<WireFlaw> for TronDecodeError {
    fn from(flaw: WireFlaw) -> Self {
        match flaw {
            WireFlaw::Malformed => Self::Malformed,
            WireFlaw::NonCanonical => Self::NonCanonical,
        }
    }
}

/// The block to which a transaction refers: a chain without this block does not accept the transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReferenceBlock {
    /// `ref_block_bytes`: the last two bytes of the block number.
    pub number_bytes: [u8; 2],
    /// `ref_block_hash`: bytes 8 to 15 of the block id.
    pub hash_bytes: [u8; 8],
}

impl ReferenceBlock {
    /// The reference to the block with this id, which starts with the eight bytes of the block number.
    pub fn of_block(block_id: &B256) -> Self {
        let [_, _, _, _, _, _, n0, n1, h0, h1, h2, h3, h4, h5, h6, h7, ..] = block_id.0;
        Self {
            number_bytes: [n0, n1],
            hash_bytes: [h0, h1, h2, h3, h4, h5, h6, h7],
        }
    }
}

/// The call of a contract (`TriggerSmartContract`). Addresses are the 20 bytes after the prefix `41`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TronCall {
    /// Account that calls.
    pub owner: EvmAddress,
    /// Called contract.
    pub contract: EvmAddress,
    /// TRX that the call sends, in sun.
    pub value_sun: u64,
    /// Call data.
    pub data: Bytes,
    /// Units of a TRC-10 token that the call sends.
    pub token_value: u64,
    /// Id of the TRC-10 token; 0 for no token.
    pub token_id: u64,
}

impl TronCall {
    fn encode(&self) -> Vec<u8> {
        let mut call = MessageWriter::default();
        call.write_bytes(call_field::OWNER_ADDRESS, &encode_address(&self.owner));
        call.write_bytes(call_field::CONTRACT_ADDRESS, &encode_address(&self.contract));
        call.write_integer(call_field::CALL_VALUE, self.value_sun);
        call.write_bytes(call_field::DATA, &self.data);
        call.write_integer(call_field::CALL_TOKEN_VALUE, self.token_value);
        call.write_integer(call_field::TOKEN_ID, self.token_id);
        call.into_bytes()
    }

    fn decode(message: &[u8]) -> Result<Self, TronDecodeError> {
        let (mut owner, mut contract): (&[u8], &[u8]) = (&[], &[]);
        let (mut value_sun, mut token_value, mut token_id) = (0, 0, 0);
        let mut data: &[u8] = &[];
        let mut reader = FieldReader::new(message);
        while let Some((number, value)) = reader.next_field()? {
            match number {
                call_field::OWNER_ADDRESS => owner = value.as_bytes()?,
                call_field::CONTRACT_ADDRESS => contract = value.as_bytes()?,
                call_field::CALL_VALUE => value_sun = read_int64(value, "call_value")?,
                call_field::DATA => data = value.as_bytes()?,
                call_field::CALL_TOKEN_VALUE => token_value = read_int64(value, "call_token_value")?,
                call_field::TOKEN_ID => token_id = read_int64(value, "token_id")?,
                _ => return Err(unknown_field("TriggerSmartContract", number)),
            }
        }
        Ok(Self {
            owner: decode_address(owner, "owner_address")?,
            contract: decode_address(contract, "contract_address")?,
            value_sun,
            data: Bytes::copy_from_slice(data),
            token_value,
            token_id,
        })
    }
}

/// What a transaction in a block does, whatever else it contains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredCall {
    /// The account that made the transaction. It signs by itself, or by the keys of its permissions.
    pub owner: EvmAddress,
    /// Called contract; `None` for a transaction of another type.
    pub contract: Option<EvmAddress>,
    /// TRX that the call sends, in sun.
    pub value_sun: u64,
    /// Call data; empty for a transaction of another type.
    pub data: Bytes,
}

impl StoredCall {
    /// Reads the raw data of a transaction that the chain has accepted; `None` if it names no owner.
    pub(super) fn read(raw_data: &[u8]) -> Option<Self> {
        let bytes = |message, number| {
            find_field(message, number)
                .ok()
                .map(|field| field.bytes.unwrap_or_default())
        };
        let integer = |message, number| {
            find_field(message, number)
                .ok()
                .map(|field| field.integer.unwrap_or_default())
        };
        let contract = bytes(raw_data, raw_field::CONTRACT)?;
        let parameter = bytes(contract, contract_field::PARAMETER)?;
        let value = bytes(parameter, parameter_field::VALUE)?;
        // The owner is the first field of every type of transaction that has events.
        let owner = decode_address(bytes(value, call_field::OWNER_ADDRESS)?, "owner_address").ok()?;
        if integer(contract, contract_field::TYPE)? != TRIGGER_SMART_CONTRACT {
            return Some(Self {
                owner,
                contract: None,
                value_sun: 0,
                data: Bytes::new(),
            });
        }
        let called = bytes(value, call_field::CONTRACT_ADDRESS)?;
        Some(Self {
            owner,
            contract: Some(decode_address(called, "contract_address").ok()?),
            value_sun: integer(value, call_field::CALL_VALUE)?,
            data: Bytes::copy_from_slice(bytes(value, call_field::DATA)?),
        })
    }
}

/// A transaction that calls one contract (`Transaction.raw`), without signatures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TronTransaction {
    /// Block to which the transaction refers.
    pub reference_block: ReferenceBlock,
    /// Unix time at which the transaction expires.
    pub expiration_ms: u64,
    /// Unix time of creation.
    pub timestamp_ms: u64,
    /// Maximum TRX that the owner burns for energy.
    pub fee_limit_sun: u64,
    /// Permission of the account with which the transaction is signed; 0 is the permission of the owner.
    pub permission_id: u32,
    /// The call.
    pub call: TronCall,
}

impl TronTransaction {
    /// The canonical encoding.
    ///
    /// [`Self::decode`] returns the transaction, unless an integer is larger than `i64::MAX` or `permission_id` is
    /// larger than `i32::MAX`.
    pub fn encode(&self) -> Vec<u8> {
        let mut parameter = MessageWriter::default();
        parameter.write_bytes(parameter_field::TYPE_URL, TYPE_URL.as_bytes());
        parameter.write_bytes(parameter_field::VALUE, &self.call.encode());
        let mut contract = MessageWriter::default();
        contract.write_integer(contract_field::TYPE, TRIGGER_SMART_CONTRACT);
        contract.write_bytes(contract_field::PARAMETER, &parameter.into_bytes());
        contract.write_integer(contract_field::PERMISSION_ID, self.permission_id.into());
        let mut raw = MessageWriter::default();
        raw.write_bytes(raw_field::REF_BLOCK_BYTES, &self.reference_block.number_bytes);
        raw.write_bytes(raw_field::REF_BLOCK_HASH, &self.reference_block.hash_bytes);
        raw.write_integer(raw_field::EXPIRATION, self.expiration_ms);
        raw.write_bytes(raw_field::CONTRACT, &contract.into_bytes());
        raw.write_integer(raw_field::TIMESTAMP, self.timestamp_ms);
        raw.write_integer(raw_field::FEE_LIMIT, self.fee_limit_sun);
        raw.into_bytes()
    }

    /// The id, which is also the hash that the owner signs.
    pub fn tx_id(&self) -> B256 {
        sha256(&self.encode())
    }

    /// Reads the canonical encoding of a transaction that calls one contract.
    ///
    /// The bytes are exactly [`Self::encode`] of the result, so that the result contains everything that the owner
    /// signed. Other transactions are refused. Memory use is proportional to the number of bytes.
    ///
    /// Errors: [`TronDecodeError`].
    pub fn decode(bytes: &[u8]) -> Result<Self, TronDecodeError> {
        let transaction = Self::decode_fields(bytes)?;
        if transaction.encode() == bytes {
            Ok(transaction)
        } else {
            Err(TronDecodeError::NonCanonical)
        }
    }

    /// Reads all fields. A field that is not a list may appear twice here; the last value counts.
    fn decode_fields(bytes: &[u8]) -> Result<Self, TronDecodeError> {
        const MESSAGE: &str = "Transaction.raw";
        let (mut number_bytes, mut hash_bytes): (&[u8], &[u8]) = (&[], &[]);
        let (mut expiration_ms, mut timestamp_ms, mut fee_limit_sun) = (0, 0, 0);
        let mut contract = None;
        let mut reader = FieldReader::new(bytes);
        while let Some((number, value)) = reader.next_field()? {
            match number {
                raw_field::REF_BLOCK_BYTES => number_bytes = value.as_bytes()?,
                raw_field::REF_BLOCK_NUM => return Err(unsupported_field(MESSAGE, "ref_block_num")),
                raw_field::REF_BLOCK_HASH => hash_bytes = value.as_bytes()?,
                raw_field::EXPIRATION => expiration_ms = read_int64(value, "expiration")?,
                raw_field::AUTHS => return Err(unsupported_field(MESSAGE, "auths")),
                raw_field::DATA => return Err(TronDecodeError::Memo),
                raw_field::CONTRACT => match contract.replace(value.as_bytes()?) {
                    None => {}
                    Some(_) => return Err(TronDecodeError::ContractCount),
                },
                raw_field::SCRIPTS => return Err(unsupported_field(MESSAGE, "scripts")),
                raw_field::TIMESTAMP => timestamp_ms = read_int64(value, "timestamp")?,
                raw_field::FEE_LIMIT => fee_limit_sun = read_int64(value, "fee_limit")?,
                _ => return Err(unknown_field(MESSAGE, number)),
            }
        }
        let (permission_id, call) = decode_contract(contract.ok_or(TronDecodeError::ContractCount)?)?;
        Ok(Self {
            reference_block: ReferenceBlock {
                number_bytes: read_array(number_bytes, "ref_block_bytes")?,
                hash_bytes: read_array(hash_bytes, "ref_block_hash")?,
            },
            expiration_ms,
            timestamp_ms,
            fee_limit_sun,
            permission_id,
            call,
        })
    }
}

/// Reads `Transaction.Contract`: the id of the permission, and the call.
fn decode_contract(message: &[u8]) -> Result<(u32, TronCall), TronDecodeError> {
    const MESSAGE: &str = "Transaction.Contract";
    let (mut contract_type, mut permission_id) = (0, 0);
    let mut parameter: &[u8] = &[];
    let mut reader = FieldReader::new(message);
    while let Some((number, value)) = reader.next_field()? {
        match number {
            contract_field::TYPE => contract_type = value.as_integer()?,
            contract_field::PARAMETER => parameter = value.as_bytes()?,
            contract_field::PROVIDER => return Err(unsupported_field(MESSAGE, "provider")),
            contract_field::CONTRACT_NAME => return Err(unsupported_field(MESSAGE, "ContractName")),
            contract_field::PERMISSION_ID => permission_id = read_int32(value, "Permission_id")?,
            _ => return Err(unknown_field(MESSAGE, number)),
        }
    }
    if contract_type != TRIGGER_SMART_CONTRACT {
        return Err(TronDecodeError::ContractType);
    }
    Ok((permission_id, decode_parameter(parameter)?))
}

/// Reads the call in a `google.protobuf.Any`.
fn decode_parameter(message: &[u8]) -> Result<TronCall, TronDecodeError> {
    let (mut type_url, mut call): (&[u8], &[u8]) = (&[], &[]);
    let mut reader = FieldReader::new(message);
    while let Some((number, value)) = reader.next_field()? {
        match number {
            parameter_field::TYPE_URL => type_url = value.as_bytes()?,
            parameter_field::VALUE => call = value.as_bytes()?,
            _ => return Err(unknown_field("google.protobuf.Any", number)),
        }
    }
    if type_url == TYPE_URL.as_bytes() {
        TronCall::decode(call)
    } else {
        Err(TronDecodeError::TypeUrl)
    }
}

fn unknown_field(message: &'static str, number: u32) -> TronDecodeError {
    TronDecodeError::UnknownField { message, number }
}

fn unsupported_field(message: &'static str, field: &'static str) -> TronDecodeError {
    TronDecodeError::UnsupportedField { message, field }
}

fn read_int64(value: WireValue<'_>, field: &'static str) -> Result<u64, TronDecodeError> {
    let integer = value.as_integer()?;
    if integer <= INT64_MAX {
        Ok(integer)
    } else {
        Err(TronDecodeError::Range { field, max: INT64_MAX })
    }
}

fn read_int32(value: WireValue<'_>, field: &'static str) -> Result<u32, TronDecodeError> {
    match u32::try_from(value.as_integer()?) {
        Ok(integer) if integer <= INT32_MAX => Ok(integer),
        _ => Err(TronDecodeError::Range {
            field,
            max: INT32_MAX.into(),
        }),
    }
}

fn read_array<const LENGTH: usize>(bytes: &[u8], field: &'static str) -> Result<[u8; LENGTH], TronDecodeError> {
    bytes
        .try_into()
        .map_err(|_| TronDecodeError::Length { field, length: LENGTH })
}

fn encode_address(address: &EvmAddress) -> Vec<u8> {
    [&[TRON_PREFIX], address.as_slice()].concat()
}

fn decode_address(bytes: &[u8], field: &'static str) -> Result<EvmAddress, TronDecodeError> {
    match bytes.split_first() {
        Some((&TRON_PREFIX, rest)) => EvmAddress::try_from(rest).ok(),
        _ => None,
    }
    .ok_or(TronDecodeError::AddressForm { field })
}

#[cfg(test)]
mod tests;
