//! Sessions of people who are signed in; only the hash of a token is stored.

use sea_orm::entity::prelude::*;

/// A row.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "sessions")]
pub struct Model {
    /// ULID.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: String,
    /// Hexadecimal SHA-256 of the token.
    pub token_hash: String,
    /// Tenant.
    pub platform_id: String,
    /// Canonical address of the wallet that signed in.
    pub wallet: Option<String>,
    /// Account that signed in.
    pub account_id: Option<String>,
    /// Time of the sign-in.
    pub created_at: DateTimeUtc,
    /// Last recorded use.
    pub last_used_at: DateTimeUtc,
    /// When the session expires; each use extends it.
    pub expires_at: DateTimeUtc,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
