//! Columns that hold personal details: sealed on the way in, opened on the way out. Source: ADR-0014.

use super::StoreError;
use crate::{
    domain::ids::Secret,
    ports::sealer::{Place, Sealer},
};
use anyhow::Context;
use sea_orm::ConnectionTrait;

/// A connection that knows the master keys.
pub trait Sealing: ConnectionTrait {
    /// The keys; `None` where none were given.
    fn sealer(&self) -> Option<&dyn Sealer>;
}

pub(super) fn keys(conn: &impl Sealing) -> Result<&dyn Sealer, StoreError> {
    let keys = conn
        .sealer()
        .context("personal details are stored and read with a master key only");
    keys.map_err(StoreError::Broken)
}

/// Seals a text for its place.
pub(super) fn seal(conn: &impl Sealing, text: String, place: Place<'_>) -> Result<String, StoreError> {
    let sealed = keys(conn)?.seal(&Secret::new(text), place);
    sealed.map_err(StoreError::Broken)
}

/// Opens a text of a place.
pub(super) fn open(conn: &impl Sealing, text: &str, place: Place<'_>) -> Result<String, StoreError> {
    let opened = keys(conn)?.open(text, place).map_err(StoreError::Broken)?;
    Ok(opened.reveal().to_owned())
}

/// The keyed hash by which a text is found.
pub(super) fn lookup(conn: &impl Sealing, text: &str) -> Result<String, StoreError> {
    Ok(keys(conn)?.lookup(text))
}
