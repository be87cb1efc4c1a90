//! Columns with personal data: encrypted when written, decrypted when read. Source: ADR-0014.

use super::StoreError;
use crate::{
    domain::ids::Secret,
    ports::sealer::{EncryptionContext, Sealer},
};
use anyhow::Context;
use sea_orm::ConnectionTrait;

/// A connection that has the master keys.
pub trait Sealing: ConnectionTrait {
    /// The keys; `None` if the connection has no keys.
    fn sealer(&self) -> Option<&dyn Sealer>;
}

pub(super) fn keys(conn: &impl Sealing) -> Result<&dyn Sealer, StoreError> {
    let keys = conn
        .sealer()
        .context("personal data can be stored and read only with a master key");
    keys.map_err(StoreError::Broken)
}

/// Encrypts a text for its row and column.
pub(super) fn seal(conn: &impl Sealing, text: String, place: EncryptionContext<'_>) -> Result<String, StoreError> {
    let sealed = keys(conn)?.seal(&Secret::new(text), place);
    sealed.map_err(StoreError::Broken)
}

/// Decrypts a text of a row and column.
pub(super) fn open(conn: &impl Sealing, text: &str, place: EncryptionContext<'_>) -> Result<String, StoreError> {
    let opened = keys(conn)?.open(text, place).map_err(StoreError::Broken)?;
    Ok(opened.reveal().to_owned())
}

/// The keyed hash by which a text is found.
pub(super) fn lookup(conn: &impl Sealing, text: &str) -> Result<String, StoreError> {
    Ok(keys(conn)?.lookup(text))
}
