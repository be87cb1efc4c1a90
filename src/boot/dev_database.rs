//! By what a database that `prs dev` made is known.

use crate::{
    domain::ids::PlatformId,
    store::{self, Db, StoreError},
};

/// The platform: ids of requests depend on it.
pub(super) const PLATFORM: &str = "01JZX4T9QK3M7N8P2R5S6V0WYA";

/// Whether `prs dev` made it.
pub(super) async fn is_of_dev(db: &Db) -> Result<bool, StoreError> {
    store::platforms::exists(db.reader(), &PlatformId(PLATFORM.to_owned())).await
}
