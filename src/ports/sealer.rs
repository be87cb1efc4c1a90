//! Encryption of secrets and personal details at rest.

use crate::domain::ids::{PayerId, Secret, drawn_at};

/// Prefix of values that are encrypted with a key of their own. The id of the master key and a colon follow the prefix.
pub const FORM: &str = "v2:";

/// Prefix of values that are encrypted with the key of a payer. The row of the payer and a colon follow the prefix.
pub const PAYER_FORM: &str = "p1:";

/// A value encrypted with the key of a payer, as stored in a column.
pub fn of_payer(payer: &PayerId, sealed: &str) -> String {
    format!("{PAYER_FORM}{payer}:{sealed}")
}

/// Splits a stored value into the payer whose key encrypts it and the value without the prefix. `None` for other
/// values.
pub fn split_payer(text: &str) -> Option<(PayerId, &str)> {
    let (payer, sealed) = text.strip_prefix(PAYER_FORM)?.split_once(':')?;
    drawn_at(payer)?;
    Some((PayerId(payer.to_owned()), sealed))
}

/// Location of an encrypted value. The value can be decrypted only with the same location.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EncryptionContext<'a> {
    /// Table and column, with a dot between them.
    pub column: &'static str,
    /// Owner of the row.
    pub owner: &'a str,
    /// Row.
    pub row: &'a str,
}

/// Encrypts values before they are stored.
pub trait Sealer: Send + Sync + 'static {
    /// Encrypts; the result is printable text that contains the id of the master key.
    fn seal(&self, secret: &Secret, place: EncryptionContext<'_>) -> anyhow::Result<String>;
    /// Decrypts. Errors: an unknown master key, another location, a damaged value.
    fn open(&self, sealed: &str, place: EncryptionContext<'_>) -> anyhow::Result<Secret>;
    /// Re-encrypts a value with the current master key, after checking that it can be decrypted. Errors: as for
    /// [`Self::open`].
    fn renew(&self, sealed: &str, place: EncryptionContext<'_>) -> anyhow::Result<String>;
    /// Generates a key for encrypting many values. The key itself is stored encrypted.
    fn draw_key(&self) -> Secret;
    /// Encrypts with a key from [`Self::draw_key`]. The result contains no key id, and a rotation of the master key
    /// leaves it unchanged.
    fn seal_with(&self, key: &Secret, secret: &Secret, place: EncryptionContext<'_>) -> anyhow::Result<String>;
    /// Decrypts a value of [`Self::seal_with`]. Errors: another key, another location, a damaged value.
    fn open_with(&self, key: &Secret, sealed: &str, place: EncryptionContext<'_>) -> anyhow::Result<Secret>;
    /// The keyed hash of a string, for looking up its row: 64 hexadecimal digits. A rotation of the master key leaves
    /// it unchanged.
    fn lookup(&self, text: &str) -> String;
    /// Id of the current master key.
    fn current_key(&self) -> &str;
}
