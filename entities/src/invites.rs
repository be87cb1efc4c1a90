//! Permissions to open one account; only the hash of a code is kept.

use sea_orm::entity::prelude::*;

/// A row.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "invites")]
pub struct Model {
    /// ULID.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: String,
    /// Hexadecimal SHA-256 of the code; none when the invite is for a wallet.
    pub code_hash: Option<String>,
    /// Hexadecimal SHA-256 of the code and the e-mail address that it is for; none when it is for anybody.
    pub email_hash: Option<String>,
    /// Canonical address of the wallet that it is for.
    pub wallet: Option<String>,
    /// Time of its making.
    pub created_at: DateTimeUtc,
    /// First moment at which it is too late.
    pub expires_at: DateTimeUtc,
    /// Time of its use; none while it can be used.
    pub used_at: Option<DateTimeUtc>,
    /// The platform that it opened.
    pub platform_id: Option<String>,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
