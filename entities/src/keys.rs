//! Server-side keys of platforms and of orchestrators; only their hash is stored.

use sea_orm::entity::prelude::*;

/// A row.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "keys")]
pub struct Model {
    /// ULID.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: String,
    /// `platform` or `orchestrator`.
    pub owner_kind: String,
    /// Platform or orchestrator.
    pub owner_id: String,
    /// Hexadecimal SHA-256 of the key.
    pub hash: String,
    /// First characters of the key, by which people recognise it.
    pub hint: String,
    /// Name for people.
    pub label: Option<String>,
    /// Time of creation.
    pub created_at: DateTimeUtc,
    /// Time of revocation.
    pub revoked_at: Option<DateTimeUtc>,
    /// Last authenticated use.
    pub last_used_at: Option<DateTimeUtc>,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
