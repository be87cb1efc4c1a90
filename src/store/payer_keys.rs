//! Keys of payers. All personal data of a payer is encrypted with the payer's key, and deleting the key erases the
//! payer. Source: ADR-0021.

use super::{Sealing, StoreError, sealed};
use crate::{
    domain::ids::{OwnerId, PayerId, PlatformId, Secret},
    ports::sealer::{EncryptionContext, of_payer, split_payer},
};
use entities::{
    payer_keys::{ActiveModel, Column, Entity, Model},
    payers,
};
use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QuerySelect};
use std::collections::{BTreeMap, BTreeSet, HashMap};

fn place<'a>(platform: &'a str, payer: &'a str) -> EncryptionContext<'a> {
    EncryptionContext {
        column: "payer_keys.data_key",
        owner: platform,
        row: payer,
    }
}

/// Draws and stores the key of a new payer.
pub async fn draw(conn: &impl Sealing, platform: &PlatformId, payer: &PayerId) -> Result<Secret, StoreError> {
    let key = sealed::keys(conn)?.draw_key();
    let row = Model {
        payer_id: payer.0.clone(),
        platform_id: platform.0.clone(),
        data_key: sealed::seal(conn, key.reveal().to_owned(), place(platform.as_str(), payer.as_str()))?,
    };
    Entity::insert(ActiveModel::from(row))
        .exec_without_returning(conn)
        .await?;
    Ok(key)
}

/// Deletes the key of a payer: nothing that was encrypted with it can be read again.
pub async fn forget(conn: &impl ConnectionTrait, platform: &PlatformId, payer: &PayerId) -> Result<(), StoreError> {
    Entity::delete_many()
        .filter(Column::PlatformId.eq(platform.as_str()))
        .filter(Column::PayerId.eq(payer.as_str()))
        .exec(conn)
        .await?;
    Ok(())
}

/// Those of the given payers that are being erased.
async fn erasing(conn: &impl ConnectionTrait, named: &[(&OwnerId, PayerId)]) -> Result<Vec<PayerId>, StoreError> {
    if named.is_empty() {
        return Ok(Vec::new());
    }
    let owners: BTreeSet<&str> = named.iter().map(|(owner, _)| owner.as_str()).collect();
    let ids: BTreeSet<&str> = named.iter().map(|(_, payer)| payer.as_str()).collect();
    let found: Vec<String> = payers::Entity::find()
        .select_only()
        .column(payers::Column::Id)
        .filter(payers::Column::PlatformId.is_in(owners))
        .filter(payers::Column::Id.is_in(ids))
        .filter(payers::Column::ErasingAt.is_not_null())
        .into_tuple()
        .all(conn)
        .await?;
    Ok(found.into_iter().map(PayerId).collect())
}

/// A stored text, decrypted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PayerText {
    /// The text.
    Text(String),
    /// Its payer is erased.
    Erased,
}

impl PayerText {
    /// The text, unless its payer is erased.
    pub fn text(self) -> Option<String> {
        match self {
            Self::Text(text) => Some(text),
            Self::Erased => None,
        }
    }
}

/// Keys of payers that were read together. A payer that was looked up and has no key is erased.
#[derive(Debug)]
pub struct Keyring(HashMap<PayerId, Secret>);

impl Keyring {
    /// Reads the keys of payers.
    pub async fn of<'a>(
        conn: &impl Sealing,
        owner: &OwnerId,
        payers: impl IntoIterator<Item = &'a PayerId>,
    ) -> Result<Self, StoreError> {
        let payers: BTreeSet<&str> = payers.into_iter().map(PayerId::as_str).collect();
        let mut keys = HashMap::new();
        if payers.is_empty() {
            return Ok(Self(keys));
        }
        let rows = Entity::find()
            .filter(Column::PlatformId.eq(owner.as_str()))
            .filter(Column::PayerId.is_in(payers))
            .all(conn)
            .await?;
        for row in rows {
            let key = sealed::open(conn, &row.data_key, place(&row.platform_id, &row.payer_id))?;
            keys.insert(PayerId(row.payer_id), Secret::new(key));
        }
        Ok(Self(keys))
    }

    /// Reads the keys of payers of several owners.
    pub async fn of_owners<'a>(
        conn: &impl Sealing,
        payers: impl IntoIterator<Item = (&'a OwnerId, &'a PayerId)>,
    ) -> Result<Self, StoreError> {
        let mut by_owner: BTreeMap<&OwnerId, Vec<&PayerId>> = BTreeMap::new();
        for (owner, payer) in payers {
            by_owner.entry(owner).or_default().push(payer);
        }
        let mut all = HashMap::new();
        for (owner, payers) in by_owner {
            all.extend(Self::of(conn, owner, payers).await?.0);
        }
        Ok(Self(all))
    }

    /// Reads the keys that are needed to decrypt texts. Only texts that are encrypted with the key of a payer need one.
    /// A payer who is being erased counts as already erased, so that the payer's data is not sent to receivers during
    /// the erasure.
    pub async fn for_texts_of<'a>(
        conn: &impl Sealing,
        texts: impl IntoIterator<Item = (&'a OwnerId, &'a str)>,
    ) -> Result<Self, StoreError> {
        let named: Vec<(&OwnerId, PayerId)> = texts
            .into_iter()
            .filter_map(|(owner, text)| Some((owner, split_payer(text)?.0)))
            .collect();
        let mut ring = Self::of_owners(conn, named.iter().map(|(owner, payer)| (*owner, payer))).await?;
        for payer in erasing(conn, &named).await? {
            ring.0.remove(&payer);
        }
        Ok(ring)
    }

    /// The key of a payer; `None` when the payer is erased.
    pub fn get(&self, payer: &PayerId) -> Option<&Secret> {
        self.0.get(payer)
    }

    /// Decrypts a text that is encrypted with the key of one of these payers, or with the master keys.
    pub fn open(
        &self,
        conn: &impl Sealing,
        text: String,
        place: EncryptionContext<'_>,
    ) -> Result<PayerText, StoreError> {
        let Some((payer, sealed_text)) = split_payer(&text) else {
            return sealed::open(conn, &text, place).map(PayerText::Text);
        };
        let Some(key) = self.get(&payer) else {
            return Ok(PayerText::Erased);
        };
        open_with(conn, key, sealed_text, place).map(PayerText::Text)
    }

    /// Encrypts a text with the key of a payer; `None` when the payer is erased.
    pub fn seal(
        &self,
        conn: &impl Sealing,
        payer: &PayerId,
        text: String,
        place: EncryptionContext<'_>,
    ) -> Result<Option<String>, StoreError> {
        let key = self.get(payer);
        key.map(|key| seal(conn, payer, key, text, place)).transpose()
    }
}

/// Encrypts a text with the key of a payer.
pub(super) fn seal(
    conn: &impl Sealing,
    payer: &PayerId,
    key: &Secret,
    text: String,
    place: EncryptionContext<'_>,
) -> Result<String, StoreError> {
    let sealed = sealed::keys(conn)?.seal_with(key, &Secret::new(text), place);
    Ok(of_payer(payer, &sealed.map_err(StoreError::Broken)?))
}

fn open_with(
    conn: &impl Sealing,
    key: &Secret,
    text: &str,
    place: EncryptionContext<'_>,
) -> Result<String, StoreError> {
    let opened = sealed::keys(conn)?.open_with(key, text, place);
    Ok(opened.map_err(StoreError::Broken)?.reveal().to_owned())
}
