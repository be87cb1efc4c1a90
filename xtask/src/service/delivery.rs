//! Events of the service as a receiver gets them.

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::{Context, Result};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// The event that reports that a request is paid.
pub const EVENT: &str = "payment.confirmed";

const SIGNATURE_HEADER: &str = "x-service-signature";

/// One delivery of an event, as it arrived at the receiver.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// Headers by lower-case name.
    pub headers: BTreeMap<String, String>,
    /// The bytes as they arrived.
    pub body: Vec<u8>,
    /// When its last byte arrived.
    pub arrived: Instant,
}

impl Delivery {
    /// Checks the signature of the body. `secret` is the endpoint's secret in the form that the API shows.
    pub fn verify(&self, secret: &str) -> Result<()> {
        let signature = self
            .headers
            .get(SIGNATURE_HEADER)
            .with_context(|| format!("no {SIGNATURE_HEADER}"))?;
        let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes())?;
        mac.update(&self.body);
        let signature = hex::decode(signature).context("the signature is not hexadecimal")?;
        mac.verify_slice(&signature)
            .context("the signature does not match the body")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signed(secret: &str, body: &str) -> Delivery {
        let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
        mac.update(body.as_bytes());
        let signature = hex::encode(mac.finalize().into_bytes());
        Delivery {
            headers: BTreeMap::from([(SIGNATURE_HEADER.to_owned(), signature)]),
            body: body.as_bytes().to_vec(),
            arrived: Instant::now(),
        }
    }

    #[test]
    fn a_signature_fits_one_secret_and_one_body() {
        let mut delivery = signed("00ff", "{}");
        assert!(delivery.verify("00ff").is_ok());
        assert!(delivery.verify("00fe").is_err());
        delivery.body.push(b' ');
        assert!(delivery.verify("00ff").is_err());
        delivery.headers.clear();
        assert!(delivery.verify("00ff").is_err());
    }
}
