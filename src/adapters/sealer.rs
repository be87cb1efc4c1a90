//! Encryption at rest with XChaCha20-Poly1305.

use crate::{
    domain::ids::Secret,
    ports::{
        ids::{Ids, random},
        sealer::Sealer,
    },
};
use anyhow::{Context, anyhow};
use base64::{Engine, engine::general_purpose::STANDARD_NO_PAD};
use chacha20poly1305::{
    KeyInit, XChaCha20Poly1305, XNonce,
    aead::{Aead, Payload},
};
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// Marks the form of a sealed text, so that a later one can stand beside it.
const FORM: &str = "v1:";

const NONCE_LENGTH: usize = 24;

/// Seals with a key derived from the master key; every value has a nonce of its own.
pub struct XChaChaSealer {
    cipher: XChaCha20Poly1305,
    ids: Arc<dyn Ids>,
}

impl XChaChaSealer {
    /// Takes the master key as the settings hold it.
    pub fn new(master_key: &Secret, ids: Arc<dyn Ids>) -> Self {
        let key = Sha256::digest(master_key.reveal());
        Self {
            cipher: XChaCha20Poly1305::new(&key),
            ids,
        }
    }
}

impl Sealer for XChaChaSealer {
    fn seal(&self, secret: &Secret, associated: &str) -> anyhow::Result<String> {
        let nonce: [u8; NONCE_LENGTH] = random(self.ids.as_ref());
        let payload = Payload {
            msg: secret.reveal().as_bytes(),
            aad: associated.as_bytes(),
        };
        let sealed = self
            .cipher
            .encrypt(&XNonce::from(nonce), payload)
            .map_err(|_| anyhow!("sealing failed"))?;
        Ok(format!(
            "{FORM}{}",
            STANDARD_NO_PAD.encode([nonce.as_slice(), &sealed].concat())
        ))
    }

    fn open(&self, sealed: &str, associated: &str) -> anyhow::Result<Secret> {
        let text = sealed.strip_prefix(FORM).context("unknown form of a sealed value")?;
        let bytes = STANDARD_NO_PAD.decode(text).context("damaged sealed value")?;
        let (nonce, sealed) = bytes
            .split_first_chunk::<NONCE_LENGTH>()
            .context("damaged sealed value")?;
        let payload = Payload {
            msg: sealed,
            aad: associated.as_bytes(),
        };
        let opened = self
            .cipher
            .decrypt(&XNonce::from(*nonce), payload)
            .map_err(|_| anyhow!("a sealed value does not open: another master key, another row or damage"))?;
        Ok(Secret::new(String::from_utf8(opened).context("damaged sealed value")?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapters::{clock::SystemClock, ids::SystemIds};

    fn sealer(key: &str) -> XChaChaSealer {
        XChaChaSealer::new(&Secret::new(key), Arc::new(SystemIds::new(Arc::new(SystemClock))))
    }

    #[test]
    fn a_value_opens_with_its_key_and_row_only() {
        let sealed = sealer("a").seal(&Secret::new("top"), "row-1").unwrap();
        assert_eq!(sealer("a").open(&sealed, "row-1").unwrap().reveal(), "top");
        assert!(sealer("b").open(&sealed, "row-1").is_err());
        assert!(sealer("a").open(&sealed, "row-2").is_err());
        assert!(sealer("a").open(&sealed[..sealed.len() - 2], "row-1").is_err());
        assert!(!sealed.contains("top"));
        assert_ne!(
            sealed,
            sealer("a").seal(&Secret::new("top"), "row-1").unwrap(),
            "a nonce of its own each time"
        );
    }
}
