//! Signed transactions as nodes take them.

use super::wire::MessageWriter;

/// Number of `raw_data` in `Transaction`.
const RAW_DATA: u32 = 1;

/// Number of `signature` in `Transaction`.
const SIGNATURE: u32 = 2;

/// Encodes a transaction with one signature (`Transaction`). `raw_data` is the encoded `Transaction.raw`, and is written
/// as it is.
pub fn encode_signed(raw_data: &[u8], signature: &[u8]) -> Vec<u8> {
    let mut transaction = MessageWriter::default();
    transaction.write_present_bytes(RAW_DATA, raw_data);
    transaction.write_present_bytes(SIGNATURE, signature);
    transaction.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_parts_are_written_unchanged_with_their_lengths() {
        let long = [7; 200];
        let encoded = encode_signed(&long, &[9; 65]);
        let expected = [&[0x0a, 0xc8, 0x01][..], &long, &[0x12, 0x41], &[9; 65]].concat();
        assert_eq!(encoded, expected);
    }
}
