//! Invites, each of which permits one new account. Only the hash of a code is stored.

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
    /// Hexadecimal SHA-256 of the code and the invited e-mail address; none when any address may use the code.
    pub email_hash: Option<String>,
    /// Canonical address of the invited wallet; none when the invite is not for a wallet.
    pub wallet: Option<String>,
    /// Time of creation.
    pub created_at: DateTimeUtc,
    /// When it expires.
    pub expires_at: DateTimeUtc,
    /// When the invite was used; none before its use.
    pub used_at: Option<DateTimeUtc>,
    /// The platform that was created with the invite.
    pub platform_id: Option<String>,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
