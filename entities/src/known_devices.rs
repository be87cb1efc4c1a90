//! Devices from which people have signed in to their accounts; only hashes are stored.

use sea_orm::entity::prelude::*;

/// A row.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "known_devices")]
pub struct Model {
    /// Hexadecimal SHA-256 of the marker in a browser, or of the account and a network address.
    #[sea_orm(primary_key, auto_increment = false)]
    pub hash: String,
    /// Account.
    pub account_id: String,
    /// Last sign-in.
    pub last_used_at: DateTimeUtc,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
