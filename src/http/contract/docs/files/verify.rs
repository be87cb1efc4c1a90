//! Needs hmac, sha2 and hex.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// `body`: the raw bytes; `header`: x-service-signature; `next`: x-service-signature-next, if present.
pub fn is_genuine(secret: &str, body: &[u8], header: &str, next: Option<&str>) -> bool {
    let Ok(mac) = Hmac::<Sha256>::new_from_slice(secret.as_bytes()) else {
        return false;
    };
    // Anyone can sign with an empty secret.
    if secret.is_empty() {
        return false;
    }
    let mac = mac.chain_update(body);
    let mut given = header.split(' ').chain(next.unwrap_or_default().split(' '));
    given.any(|signature| {
        let signature = hex::decode(signature).unwrap_or_default();
        mac.clone().verify_slice(&signature).is_ok()
    })
}
