//! Encryption of secrets and personal details at rest.

use crate::domain::ids::{PayerId, Secret, drawn_at};

/// How texts begin that are sealed under a key of their own; the id of its master key and a colon follow.
pub const FORM: &str = "v2:";

/// How texts begin that are sealed with the key of a payer; the row of the payer and a colon follow.
pub const PAYER_FORM: &str = "p1:";

/// A text that is sealed with the key of a payer, as columns hold it.
pub fn of_payer(payer: &PayerId, sealed: &str) -> String {
    format!("{PAYER_FORM}{payer}:{sealed}")
}

/// The payer with whose key a text is sealed, and the text without its name; `None` for any other text.
pub fn split_payer(text: &str) -> Option<(PayerId, &str)> {
    let (payer, sealed) = text.strip_prefix(PAYER_FORM)?.split_once(':')?;
    drawn_at(payer)?;
    Some((PayerId(payer.to_owned()), sealed))
}

/// Where a sealed value stands. It opens nowhere else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place<'a> {
    /// Table and column, with a dot between them.
    pub column: &'static str,
    /// Whose row it is.
    pub owner: &'a str,
    /// Which row of theirs.
    pub row: &'a str,
}

/// Seals values before they are stored.
pub trait Sealer: Send + Sync + 'static {
    /// Seals; the result is printable text that names the master key.
    fn seal(&self, secret: &Secret, place: Place<'_>) -> anyhow::Result<String>;
    /// Opens. Errors: a master key that is not known, another place, damaged text.
    fn open(&self, sealed: &str, place: Place<'_>) -> anyhow::Result<Secret>;
    /// The same value under the current master key, once it is known to open. Errors: like [`Self::open`].
    fn renew(&self, sealed: &str, place: Place<'_>) -> anyhow::Result<String>;
    /// Draws a key under which many values are sealed. It is a value itself, and is stored sealed.
    fn draw_key(&self) -> Secret;
    /// Seals with a key of [`Self::draw_key`]; the result names no key, and a rotation leaves it as it is.
    fn seal_with(&self, key: &Secret, secret: &Secret, place: Place<'_>) -> anyhow::Result<String>;
    /// Opens what [`Self::seal_with`] sealed. Errors: another key, another place, damaged text.
    fn open_with(&self, key: &Secret, sealed: &str, place: Place<'_>) -> anyhow::Result<Secret>;
    /// The keyed hash of a text, by which its row is found: 64 hexadecimal digits. A rotation leaves it as it is.
    fn lookup(&self, text: &str) -> String;
    /// Id of the master key that seals now.
    fn current_key(&self) -> &str;
}
