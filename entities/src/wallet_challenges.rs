//! Sign-in messages that wallets sign.

use sea_orm::entity::prelude::*;

/// A row.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "wallet_challenges")]
pub struct Model {
    /// ULID.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: String,
    /// Canonical address of the wallet.
    pub address: String,
    /// Random part of the message.
    pub nonce: String,
    /// What the wallet signs.
    pub message: String,
    /// Time of creation.
    pub created_at: DateTimeUtc,
    /// When it expires.
    pub expires_at: DateTimeUtc,
    /// When the message was used to sign in; none before its use.
    pub used_at: Option<DateTimeUtc>,
    /// How often a contract wallet was queried about its signature.
    pub checks: i32,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
