//! The parts of the protobuf encoding that messages of Tron use: integers, and byte strings with their length.
//!
//! Strings and nested messages are byte strings. In the canonical encoding, the fields of a message are in ascending
//! order, an integer has its shortest form, and fields with zero or nothing are left out.

/// Wire type of an integer.
const INTEGER: u64 = 0;

/// Wire type of a byte string.
const BYTES: u64 = 2;

/// Wire types of fields that messages of Tron do not use. Unknown fields may have them.
const FIXED_64: u64 = 1;
const GROUP_START: u64 = 3;
const GROUP_END: u64 = 4;
const FIXED_32: u64 = 5;

/// Bits of a key that contain the wire type. The number of the field is in the bits above.
const WIRE_TYPE_BITS: u32 = 3;

/// Bits of an integer in each byte of its encoding.
const GROUP_BITS: u32 = 7;

/// Bit of a byte that says that the integer continues in the next byte.
const CONTINUES: u8 = 0x80;

/// Writes the fields of a message. The caller writes them in ascending order.
#[derive(Debug, Default)]
pub(super) struct MessageWriter {
    bytes: Vec<u8>,
}

impl MessageWriter {
    /// Writes an integer unless it is zero.
    pub(super) fn write_integer(&mut self, number: u32, value: u64) {
        if value != 0 {
            self.write_present_integer(number, value);
        }
    }

    /// Writes an integer, even zero.
    pub(super) fn write_present_integer(&mut self, number: u32, value: u64) {
        self.write_key(number, INTEGER);
        self.write_varint(value);
    }

    /// Writes a byte string unless it is empty.
    pub(super) fn write_bytes(&mut self, number: u32, value: &[u8]) {
        if !value.is_empty() {
            self.write_present_bytes(number, value);
        }
    }

    /// Writes a byte string, even an empty one: a nested message, or an element of a list.
    pub(super) fn write_present_bytes(&mut self, number: u32, value: &[u8]) {
        self.write_key(number, BYTES);
        self.write_varint(u64::try_from(value.len()).unwrap_or(u64::MAX));
        self.bytes.extend_from_slice(value);
    }

    /// The encoded message.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    fn write_key(&mut self, number: u32, wire_type: u64) {
        self.write_varint(u64::from(number) << WIRE_TYPE_BITS | wire_type);
    }

    fn write_varint(&mut self, mut value: u64) {
        loop {
            let [low, ..] = value.to_le_bytes();
            value >>= GROUP_BITS;
            if value == 0 {
                self.bytes.push(low);
                return;
            }
            self.bytes.push(low | CONTINUES);
        }
    }
}

/// Why bytes are not a message in the canonical encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WireFlaw {
    /// The bytes end within a field, or a field is neither an integer nor a byte string, or not of the expected kind.
    Malformed,
    /// The bytes have a shorter or differently ordered encoding.
    NonCanonical,
}

/// The value of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WireValue<'a> {
    /// An integer.
    Integer(u64),
    /// A byte string.
    Bytes(&'a [u8]),
}

impl<'a> WireValue<'a> {
    /// The integer. Errors: [`WireFlaw::Malformed`] for a byte string.
    pub(super) fn as_integer(self) -> Result<u64, WireFlaw> {
        match self {
            Self::Integer(value) => Ok(value),
            Self::Bytes(_) => Err(WireFlaw::Malformed),
        }
    }

    /// The byte string. Errors: [`WireFlaw::Malformed`] for an integer.
    pub(super) fn as_bytes(self) -> Result<&'a [u8], WireFlaw> {
        match self {
            Self::Integer(_) => Err(WireFlaw::Malformed),
            Self::Bytes(value) => Ok(value),
        }
    }
}

/// Reads the fields of a message. It copies nothing and never reads beyond the bytes.
#[derive(Debug)]
pub(super) struct FieldReader<'a> {
    rest: &'a [u8],
    last_number: u32,
}

impl<'a> FieldReader<'a> {
    /// A reader of this message.
    pub(super) fn new(message: &'a [u8]) -> Self {
        Self {
            rest: message,
            last_number: 0,
        }
    }

    /// Reads the next field: its number and its value. `None` at the end of the message.
    ///
    /// A number may repeat, since the elements of a list have the same number. The caller decides whether the field is
    /// a list.
    pub(super) fn next_field(&mut self) -> Result<Option<(u32, WireValue<'a>)>, WireFlaw> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let key = self.read_varint()?;
        let number = u32::try_from(key >> WIRE_TYPE_BITS).map_err(|_| WireFlaw::Malformed)?;
        if number == 0 {
            return Err(WireFlaw::Malformed);
        }
        let value = match key & ((1 << WIRE_TYPE_BITS) - 1) {
            INTEGER => WireValue::Integer(self.read_varint()?),
            BYTES => WireValue::Bytes(self.read_bytes()?),
            _ => return Err(WireFlaw::Malformed),
        };
        let is_left_out = matches!(value, WireValue::Integer(0) | WireValue::Bytes([]));
        if is_left_out || number < self.last_number {
            return Err(WireFlaw::NonCanonical);
        }
        self.last_number = number;
        Ok(Some((number, value)))
    }

    fn read_bytes(&mut self) -> Result<&'a [u8], WireFlaw> {
        let length = usize::try_from(self.read_varint()?).map_err(|_| WireFlaw::Malformed)?;
        self.take(length)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], WireFlaw> {
        let (value, rest) = self.rest.split_at_checked(length).ok_or(WireFlaw::Malformed)?;
        self.rest = rest;
        Ok(value)
    }

    /// Reads an integer in any encoding. Bits beyond the 64th are ignored.
    fn read_any_varint(&mut self) -> Result<u64, WireFlaw> {
        let mut value = 0;
        for shift in (0..=63).step_by(7) {
            let (&byte, rest) = self.rest.split_first().ok_or(WireFlaw::Malformed)?;
            self.rest = rest;
            value |= u64::from(byte & !CONTINUES) << shift;
            if byte & CONTINUES == 0 {
                return Ok(value);
            }
        }
        Err(WireFlaw::Malformed)
    }

    fn read_varint(&mut self) -> Result<u64, WireFlaw> {
        let mut value = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let (&byte, rest) = self.rest.split_first().ok_or(WireFlaw::Malformed)?;
            self.rest = rest;
            let group = u64::from(byte & !CONTINUES);
            if group << shift >> shift != group {
                return Err(WireFlaw::Malformed);
            }
            value |= group << shift;
            if byte & CONTINUES == 0 {
                let has_empty_group = byte == 0 && shift > 0;
                return if has_empty_group {
                    Err(WireFlaw::NonCanonical)
                } else {
                    Ok(value)
                };
            }
        }
        Err(WireFlaw::Malformed)
    }
}

/// The last integer and the last byte string of a field, as every protobuf reader reads them: in any order, with unknown
/// fields of any kind.
///
/// It is for messages that the chain has accepted. Errors: [`WireFlaw::Malformed`].
pub(super) fn find_field<'a>(message: &'a [u8], wanted: u32) -> Result<FoundField<'a>, WireFlaw> {
    let mut reader = FieldReader::new(message);
    let mut found = FoundField::default();
    let mut open_groups = 0_u32;
    while !reader.rest.is_empty() {
        let key = reader.read_any_varint()?;
        let number = u32::try_from(key >> WIRE_TYPE_BITS).map_err(|_| WireFlaw::Malformed)?;
        let is_wanted = number == wanted && open_groups == 0;
        match key & ((1 << WIRE_TYPE_BITS) - 1) {
            INTEGER => {
                let integer = reader.read_any_varint()?;
                found.integer = if is_wanted { Some(integer) } else { found.integer };
            }
            BYTES => {
                let length = usize::try_from(reader.read_any_varint()?).map_err(|_| WireFlaw::Malformed)?;
                let bytes = reader.take(length)?;
                found.bytes = if is_wanted { Some(bytes) } else { found.bytes };
            }
            FIXED_64 => drop(reader.take(8)?),
            FIXED_32 => drop(reader.take(4)?),
            GROUP_START => open_groups += 1,
            GROUP_END => open_groups = open_groups.checked_sub(1).ok_or(WireFlaw::Malformed)?,
            _ => return Err(WireFlaw::Malformed),
        }
    }
    Ok(found)
}

/// The values of one field in a message.
#[derive(Debug, Default)]
pub(super) struct FoundField<'a> {
    /// The last integer.
    pub(super) integer: Option<u64>,
    /// The last byte string.
    pub(super) bytes: Option<&'a [u8]>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read_all(message: &[u8]) -> Result<Vec<(u32, WireValue<'_>)>, WireFlaw> {
        let mut reader = FieldReader::new(message);
        let mut fields = Vec::new();
        while let Some(field) = reader.next_field()? {
            fields.push(field);
        }
        Ok(fields)
    }

    #[test]
    fn fields_are_written_as_published() {
        let mut writer = MessageWriter::default();
        writer.write_integer(1, 150);
        writer.write_integer(2, 0);
        writer.write_bytes(2, b"testing");
        writer.write_bytes(3, b"");
        writer.write_present_bytes(4, b"");
        writer.write_present_integer(18, 0);
        writer.write_integer(19, u64::MAX);
        let expected = "089601120774657374696e6722009001009801ffffffffffffffffff01";
        assert_eq!(hex::encode(writer.into_bytes()), expected);
    }

    #[test]
    fn malformed_messages_are_refused() {
        for message in [
            "80",                       // a key that ends early
            "08",                       // no value
            "0880",                     // an integer that ends early
            "08ffffffffffffffffff02",   // 65 bits
            "08ffffffffffffffffffff01", // 11 bytes
            "0a",                       // no length
            "0a0201",                   // fewer bytes than the length
            "0affffffffffffffffff01",   // the largest length
            "0001",                     // field 0
            "090000000000000001",       // a fixed integer of 8 bytes
            "0d00000001",               // a fixed integer of 4 bytes
            "0b0c",                     // a group
            "0c",                       // the end of a group
            "0e01",                     // wire type 6
            "808080808001",             /* a number of more than 32 bits */
        ] {
            assert_eq!(
                read_all(&hex::decode(message).unwrap()),
                Err(WireFlaw::Malformed),
                "{message}"
            );
        }
    }

    #[test]
    fn other_encodings_of_the_same_fields_are_refused() {
        for message in [
            "088100",       // an integer with an empty group
            "88000101",     // a key with an empty group
            "0a810001",     // a length with an empty group
            "0800",         // zero
            "0a00",         // nothing
            "100108011001", // descending numbers
        ] {
            assert_eq!(
                read_all(&hex::decode(message).unwrap()),
                Err(WireFlaw::NonCanonical),
                "{message}"
            );
        }
    }

    #[test]
    fn values_of_the_wrong_kind_are_refused() {
        assert_eq!(WireValue::Integer(1).as_bytes(), Err(WireFlaw::Malformed));
        assert_eq!(WireValue::Bytes(b"a").as_integer(), Err(WireFlaw::Malformed));
    }

    proptest! {
        #[test]
        fn every_integer_round_trips(number in 1_u32..=u32::MAX >> 3, value in 1_u64.., shift in 0_u32..64) {
            let value = (value >> shift).max(1);
            let mut writer = MessageWriter::default();
            writer.write_integer(number, value);
            let message = writer.into_bytes();
            prop_assert_eq!(read_all(&message), Ok(vec![(number, WireValue::Integer(value))]));
        }

        #[test]
        fn read_fields_are_written_the_same_way(message in proptest::collection::vec(any::<u8>(), 0..40)) {
            if let Ok(fields) = read_all(&message) {
                let mut writer = MessageWriter::default();
                for (number, value) in fields {
                    match value {
                        WireValue::Integer(value) => writer.write_integer(number, value),
                        WireValue::Bytes(value) => writer.write_bytes(number, value),
                    }
                }
                prop_assert_eq!(writer.into_bytes(), message);
            }
        }
    }
}
