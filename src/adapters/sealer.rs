//! Encryption at rest with XChaCha20-Poly1305. Each value has its own data key, which a master key wraps.
//!
//! Source: ADR-0014.

use crate::{
    domain::ids::Secret,
    ports::{
        ids::{Ids, random},
        sealer::{EncryptionContext, FORM, Sealer},
    },
};
use anyhow::{Context, anyhow, bail};
use base64::{Engine, engine::general_purpose::STANDARD_NO_PAD};
use chacha20poly1305::{
    KeyInit, XChaCha20Poly1305, XNonce,
    aead::{Aead, Payload},
};
use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};
use std::sync::Arc;

const NONCE_LENGTH: usize = 24;

/// Length of a wrapped data key: 32 bytes and their authentication tag.
const WRAPPED_LENGTH: usize = 48;

/// Length of the id of a master key.
const ID_LENGTH: usize = 12;

/// The nonce for values. A data key encrypts one value once, so all data keys can share one nonce.
const ONLY_NONCE: [u8; NONCE_LENGTH] = [0; NONCE_LENGTH];

const CANNOT_OPEN: &str = "an encrypted value cannot be decrypted: it is damaged or belongs to another row";

/// A master key, which wraps the data keys of values.
struct MasterKey {
    /// Id of the master key. It is derived from the key, so that no two keys share an id and no list of ids is needed.
    id: String,
    wrapping: XChaCha20Poly1305,
}

impl MasterKey {
    fn new(text: &Secret) -> Self {
        let key: [u8; 32] = Sha256::digest(text.reveal()).into();
        let mut id = hex::encode(keyed_hash(&key, b"id of a master key"));
        id.truncate(ID_LENGTH);
        Self {
            id,
            wrapping: XChaCha20Poly1305::new(&keyed_hash(&key, b"wraps data keys").into()),
        }
    }
}

/// The master keys of this instance.
pub struct MasterKeys {
    /// The current key, which encrypts.
    current: MasterKey,
    /// The former master keys, which only decrypt.
    former: Vec<MasterKey>,
    ids: Arc<dyn Ids>,
}

impl MasterKeys {
    /// Takes master keys in the form of the settings.
    pub fn new(current: &Secret, former: &[Secret], ids: Arc<dyn Ids>) -> Self {
        Self {
            current: MasterKey::new(current),
            former: former.iter().map(MasterKey::new).collect(),
            ids,
        }
    }

    /// The ids of the master keys, the current one first.
    pub fn known(&self) -> Vec<&str> {
        self.all().map(|key| key.id.as_str()).collect()
    }

    fn all(&self) -> impl Iterator<Item = &MasterKey> {
        std::iter::once(&self.current).chain(&self.former)
    }

    /// Encrypts with the current key.
    pub fn seal(&self, secret: &Secret, place: EncryptionContext<'_>) -> anyhow::Result<String> {
        let data_key: [u8; 32] = random(self.ids.as_ref());
        let cipher = XChaCha20Poly1305::new(&data_key.into());
        let value = encrypt(&cipher, &ONLY_NONCE, secret.reveal().as_bytes(), &associated(place))?;
        self.write(&data_key, &value)
    }

    /// Decrypts a value that any of the master keys protects.
    pub fn open(&self, sealed: &str, place: EncryptionContext<'_>) -> anyhow::Result<Secret> {
        let (data_key, value) = self.unwrap_key(sealed)?;
        open_value(&data_key, &value, place)
    }

    /// Wraps the data key of a value with the current key.
    fn renew(&self, sealed: &str, place: EncryptionContext<'_>) -> anyhow::Result<String> {
        let (data_key, value) = self.unwrap_key(sealed)?;
        open_value(&data_key, &value, place)?;
        self.write(&data_key, &value)
    }

    fn write(&self, data_key: &[u8; 32], value: &[u8]) -> anyhow::Result<String> {
        let nonce: [u8; NONCE_LENGTH] = random(self.ids.as_ref());
        let wrapped = encrypt(&self.current.wrapping, &nonce, data_key, &[])?;
        let bytes = [nonce.as_slice(), &wrapped, value].concat();
        Ok(format!("{FORM}{}:{}", self.current.id, STANDARD_NO_PAD.encode(bytes)))
    }

    /// The data key of a value, and the encrypted value.
    fn unwrap_key(&self, sealed: &str) -> anyhow::Result<([u8; 32], Vec<u8>)> {
        let text = sealed
            .strip_prefix(FORM)
            .context("an encrypted value has an unknown format")?;
        let (id, text) = text.split_once(':').context("an encrypted value is damaged")?;
        let Some(master) = self.all().find(|key| key.id == id) else {
            bail!("a value is encrypted with the master key {id}, which is not in secrets.master_keys");
        };
        let bytes = STANDARD_NO_PAD.decode(text).context("an encrypted value is damaged")?;
        let (nonce, rest) = bytes
            .split_first_chunk::<NONCE_LENGTH>()
            .context("an encrypted value is damaged")?;
        let (wrapped, value) = rest
            .split_first_chunk::<WRAPPED_LENGTH>()
            .context("an encrypted value is damaged")?;
        let data_key = decrypt(&master.wrapping, nonce, wrapped, &[])?;
        let data_key = data_key.try_into().map_err(|_| anyhow!(CANNOT_OPEN))?;
        Ok((data_key, value.to_vec()))
    }
}

/// Encrypts with the master keys, and computes lookup hashes with a key that they protect and that never changes.
pub struct EnvelopeSealer {
    keys: MasterKeys,
    lookup_key: Secret,
}

impl EnvelopeSealer {
    /// Takes the master keys and the lookup key of the database.
    pub fn new(keys: MasterKeys, lookup_key: Secret) -> Self {
        Self { keys, lookup_key }
    }
}

impl Sealer for EnvelopeSealer {
    fn seal(&self, secret: &Secret, place: EncryptionContext<'_>) -> anyhow::Result<String> {
        self.keys.seal(secret, place)
    }

    fn open(&self, sealed: &str, place: EncryptionContext<'_>) -> anyhow::Result<Secret> {
        self.keys.open(sealed, place)
    }

    fn renew(&self, sealed: &str, place: EncryptionContext<'_>) -> anyhow::Result<String> {
        self.keys.renew(sealed, place)
    }

    fn draw_key(&self) -> Secret {
        let key: [u8; 32] = random(self.keys.ids.as_ref());
        Secret::new(hex::encode(key))
    }

    fn seal_with(&self, key: &Secret, secret: &Secret, place: EncryptionContext<'_>) -> anyhow::Result<String> {
        let nonce: [u8; NONCE_LENGTH] = random(self.keys.ids.as_ref());
        let value = encrypt(&drawn(key)?, &nonce, secret.reveal().as_bytes(), &associated(place))?;
        Ok(STANDARD_NO_PAD.encode([nonce.as_slice(), &value].concat()))
    }

    fn open_with(&self, key: &Secret, sealed: &str, place: EncryptionContext<'_>) -> anyhow::Result<Secret> {
        let bytes = STANDARD_NO_PAD
            .decode(sealed)
            .context("an encrypted value is damaged")?;
        let (nonce, value) = bytes
            .split_first_chunk::<NONCE_LENGTH>()
            .context("an encrypted value is damaged")?;
        let opened = decrypt(&drawn(key)?, nonce, value, &associated(place))?;
        Ok(Secret::new(
            String::from_utf8(opened).context("an encrypted value is damaged")?,
        ))
    }

    fn lookup(&self, text: &str) -> String {
        hex::encode(keyed_hash(self.lookup_key.reveal().as_bytes(), text.as_bytes()))
    }

    fn current_key(&self) -> &str {
        &self.keys.current.id
    }
}

/// Decrypts a value with its own key.
fn open_value(data_key: &[u8; 32], value: &[u8], place: EncryptionContext<'_>) -> anyhow::Result<Secret> {
    let cipher = XChaCha20Poly1305::new(data_key.into());
    let opened = decrypt(&cipher, &ONLY_NONCE, value, &associated(place))?;
    Ok(Secret::new(
        String::from_utf8(opened).context("an encrypted value is damaged")?,
    ))
}

/// The cipher for a data key that encrypts many values. The key is hexadecimal text. Errors: the key is damaged.
fn drawn(key: &Secret) -> anyhow::Result<XChaCha20Poly1305> {
    let key: [u8; 32] = hex::decode_to_array(key.reveal()).context("a data key is damaged")?;
    Ok(XChaCha20Poly1305::new(&key.into()))
}

/// The associated data of a value. Column and owner contain no line break, so that every location has a unique
/// encoding.
fn associated(place: EncryptionContext<'_>) -> Vec<u8> {
    format!("{}\n{}\n{}", place.column, place.owner, place.row).into_bytes()
}

#[expect(clippy::expect_used, reason = "HMAC takes keys of any length")]
fn keyed_hash(key: &[u8], text: &[u8]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("any key length");
    mac.update(text);
    mac.finalize().into_bytes().into()
}

fn encrypt(
    cipher: &XChaCha20Poly1305,
    nonce: &[u8; NONCE_LENGTH],
    text: &[u8],
    associated: &[u8],
) -> anyhow::Result<Vec<u8>> {
    let payload = Payload {
        msg: text,
        aad: associated,
    };
    let sealed = cipher.encrypt(&XNonce::from(*nonce), payload);
    sealed.map_err(|_| anyhow!("encryption failed"))
}

fn decrypt(
    cipher: &XChaCha20Poly1305,
    nonce: &[u8; NONCE_LENGTH],
    sealed: &[u8],
    associated: &[u8],
) -> anyhow::Result<Vec<u8>> {
    let payload = Payload {
        msg: sealed,
        aad: associated,
    };
    let opened = cipher.decrypt(&XNonce::from(*nonce), payload);
    opened.map_err(|_| anyhow!(CANNOT_OPEN))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapters::{clock::SystemClock, ids::SystemIds};

    const PLACE: EncryptionContext<'static> = EncryptionContext {
        column: "table.column",
        owner: "tenant",
        row: "row-1",
    };

    fn sealer(keys: &[&str]) -> EnvelopeSealer {
        let secrets: Vec<Secret> = keys.iter().copied().map(Secret::new).collect();
        let ids = Arc::new(SystemIds::new(Arc::new(SystemClock)));
        EnvelopeSealer::new(MasterKeys::new(&secrets[0], &secrets[1..], ids), Secret::new("look"))
    }

    #[test]
    fn a_value_decrypts_only_with_its_key_and_context() {
        let sealed = sealer(&["a"]).seal(&Secret::new("top"), PLACE).unwrap();
        assert!(sealed.starts_with(&format!("{FORM}{}:", sealer(&["a"]).current_key())));
        assert!(!sealed.contains("top"));
        assert_eq!(sealer(&["a"]).open(&sealed, PLACE).unwrap().reveal(), "top");
        assert_eq!(sealer(&["b", "a"]).open(&sealed, PLACE).unwrap().reveal(), "top");
        let unknown = sealer(&["b"]).open(&sealed, PLACE).unwrap_err().to_string();
        assert!(unknown.contains(sealer(&["a"]).current_key()), "{unknown}");
        for place in [
            EncryptionContext {
                column: "table.other",
                ..PLACE
            },
            EncryptionContext {
                owner: "another",
                ..PLACE
            },
            EncryptionContext { row: "row-2", ..PLACE },
        ] {
            assert!(sealer(&["a"]).open(&sealed, place).is_err(), "{place:?}");
        }
        assert!(sealer(&["a"]).open(&sealed[..sealed.len() - 2], PLACE).is_err());
        let again = sealer(&["a"]).seal(&Secret::new("top"), PLACE).unwrap();
        assert_ne!(sealed, again, "each value has its own key");
    }

    #[test]
    fn a_generated_key_decrypts_only_its_values_in_their_context() {
        let sealer = sealer(&["a"]);
        let (key, other) = (sealer.draw_key(), sealer.draw_key());
        let sealed = sealer.seal_with(&key, &Secret::new("top"), PLACE).unwrap();
        assert_eq!(sealer.open_with(&key, &sealed, PLACE).unwrap().reveal(), "top");
        assert!(sealer.open_with(&other, &sealed, PLACE).is_err());
        let elsewhere = EncryptionContext { row: "row-2", ..PLACE };
        assert!(sealer.open_with(&key, &sealed, elsewhere).is_err());
        let again = sealer.seal_with(&key, &Secret::new("top"), PLACE).unwrap();
        assert_ne!(sealed, again, "each value has its own nonce");
    }

    #[test]
    fn a_reencrypted_value_decrypts_only_with_the_new_key() {
        let sealed = sealer(&["a"]).seal(&Secret::new("top"), PLACE).unwrap();
        let renewed = sealer(&["b", "a"]).renew(&sealed, PLACE).unwrap();
        assert_eq!(sealer(&["b"]).open(&renewed, PLACE).unwrap().reveal(), "top");
        assert!(sealer(&["a"]).open(&renewed, PLACE).is_err());
        assert!(sealer(&["b"]).renew(&sealed, PLACE).is_err());
        let elsewhere = EncryptionContext { row: "row-2", ..PLACE };
        assert!(sealer(&["b", "a"]).renew(&sealed, elsewhere).is_err());
    }

    #[test]
    fn lookup_hashes_do_not_depend_on_the_master_key() {
        let one = sealer(&["a"]).lookup("ada@example.com");
        assert_eq!(one, sealer(&["b"]).lookup("ada@example.com"));
        assert_ne!(one, sealer(&["a"]).lookup("bob@example.com"));
        assert_eq!(one.len(), 64);
    }
}
