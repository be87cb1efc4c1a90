//! Detects a database created by `prs dev`.

use crate::{
    domain::ids::PlatformId,
    store::{self, Db, StoreError},
};

/// Id of the platform of `prs dev`. It is fixed, because the ids of its example requests depend on it.
pub(super) const PLATFORM: &str = "01JZX4T9QK3M7N8P2R5S6V0WYA";

/// Whether `prs dev` created the database.
pub(super) async fn is_of_dev(db: &Db) -> Result<bool, StoreError> {
    store::platforms::exists(db.reader(), &PlatformId(PLATFORM.to_owned())).await
}
