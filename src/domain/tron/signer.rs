//! The signer of a transaction.

use crate::domain::address::Address;
use alloy::primitives::{B256, Signature};

/// Bytes of a signature.
const SIGNATURE_LENGTH: usize = 65;

/// The account whose key signed the id of a transaction. `None` if the signature has another length or form, or an s in
/// the upper half of the curve order.
///
/// Wallets do not create signatures with the larger s. Source: EIP-2.
pub fn recover_signer(tx_id: &B256, signature: &[u8]) -> Option<Address> {
    let [.., recovery] = signature else { return None };
    if signature.len() != SIGNATURE_LENGTH || !matches!(recovery, 0 | 1 | 27 | 28) {
        return None;
    }
    let signature = Signature::from_raw(signature).ok()?;
    if signature.normalize_s().is_some() {
        return None;
    }
    signature.recover_address_from_prehash(tx_id).ok().map(Address::Tron)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy::primitives::{U256, uint};
    use proptest::prelude::*;
    use serde_json::Value;

    /// Transactions that tronweb 6.5.1 encoded and signed.
    const BY_TRONWEB: &str = include_str!("../../../tests/vectors/tron-transactions.json");

    /// Order of the curve secp256k1.
    const CURVE_ORDER: U256 = uint!(0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141_U256);

    /// The id of each transaction, its signature and its signer.
    fn signed() -> Vec<(B256, Vec<u8>, Address)> {
        let file: Value = serde_json::from_str(BY_TRONWEB).unwrap();
        let parsed = file["cases"].as_array().unwrap().iter().map(|case| {
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            let signature = hex::decode(text(&case["signature"][0])).unwrap();
            let signer = Address::parse(&text(&case["owner"])).unwrap();
            (text(&case["txID"]).parse().unwrap(), signature, signer)
        });
        parsed.collect()
    }

    #[test]
    fn signers_of_the_vectors_are_recovered() {
        let all = signed();
        assert_eq!(all.len(), 2);
        for (tx_id, mut signature, signer) in all {
            assert_eq!(recover_signer(&tx_id, &signature), Some(signer));
            assert_ne!(recover_signer(&B256::repeat_byte(1), &signature), Some(signer));
            signature[64] -= 27;
            assert_eq!(recover_signer(&tx_id, &signature), Some(signer));
        }
    }

    #[test]
    fn signatures_of_another_form_have_no_signer() {
        let (tx_id, signature, _) = signed().swap_remove(0);
        let mut high_s = signature.clone();
        let s = CURVE_ORDER - U256::from_be_slice(&signature[32..64]);
        high_s[32..64].copy_from_slice(&s.to_be_bytes::<32>());
        high_s[64] = 27 + 28 - high_s[64];
        let mut zero_s = signature.clone();
        zero_s[32..64].fill(0);
        let mut longer = signature.clone();
        longer.push(27);
        for refused in [&high_s[..], &zero_s, &longer, &signature[..64], &[]] {
            assert_eq!(recover_signer(&tx_id, refused), None, "{}", hex::encode(refused));
        }
        for recovery in (0..=u8::MAX).filter(|recovery| ![0, 1, 27, 28].contains(recovery)) {
            let mut other = signature.clone();
            other[64] = recovery;
            assert_eq!(recover_signer(&tx_id, &other), None, "{recovery}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(tx_id in any::<[u8; 32]>(), half in any::<[u8; 32]>(), other in any::<[u8; 32]>()) {
            for recovery in [0, 1, 27, 28] {
                let _ = recover_signer(&tx_id.into(), &[&half[..], &other[..], &[recovery]].concat());
            }
            let _ = recover_signer(&tx_id.into(), &half);
        }
    }
}
