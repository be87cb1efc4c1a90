//! Encryption of secrets at rest.

use crate::domain::ids::Secret;

/// Seals secrets before they are stored. The associated text ties a sealed value to its row.
pub trait Sealer: Send + Sync + 'static {
    /// Seals; the result is printable text.
    fn seal(&self, secret: &Secret, associated: &str) -> anyhow::Result<String>;
    /// Opens. Errors: a wrong key, another row, damaged text.
    fn open(&self, sealed: &str, associated: &str) -> anyhow::Result<Secret>;
}
