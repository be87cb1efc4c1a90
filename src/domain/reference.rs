//! Payment references, which identify requests on chain.

use super::{address::Address, ids::RequestId};
use alloy::primitives::{B256, keccak256};
use std::fmt;

/// The eight bytes that a payment carries through the proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PaymentReference(pub [u8; 8]);

impl PaymentReference {
    /// Derives the reference of a request: the last 8 bytes of keccak-256 over request id, salt and payee as
    /// lower-cased text. Tron addresses are lower-cased too.
    ///
    /// Source: rules G.4.
    pub fn derive(request: &RequestId, salt_hex: &str, payee: &Address) -> Self {
        Self::over(&format!("{request}{salt_hex}{payee}"))
    }

    fn over(text: &str) -> Self {
        let digest = keccak256(text.to_lowercase());
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&digest[24..]);
        Self(bytes)
    }

    /// The reference of a request. For a request without a payee, the derivation omits the payee.
    ///
    /// The reference is fixed at creation and does not depend on the address to which payments go later.
    pub fn of_request(request: &RequestId, salt_hex: &str, payee: Option<&Address>) -> Self {
        match payee {
            Some(payee) => Self::derive(request, salt_hex, payee),
            None => Self::over(&format!("{request}{salt_hex}")),
        }
    }

    /// The topic of the reference. The event of a proxy contains this hash of the indexed bytes instead of the
    /// reference.
    pub fn topic(&self) -> B256 {
        keccak256(self.0)
    }

    /// Parses `0x` and 16 hexadecimal digits in upper or lower case; the prefix is optional.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix("0x").unwrap_or(text);
        if digits.len() != 16 {
            return None;
        }
        hex::decode_to_array(digits).ok().map(Self)
    }
}

impl fmt::Display for PaymentReference {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "0x{}", hex::encode(self.0))
    }
}
