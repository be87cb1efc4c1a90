//! Messages that wallets were asked to sign.

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
    /// Time of the question.
    pub created_at: DateTimeUtc,
    /// First moment at which it is too late.
    pub expires_at: DateTimeUtc,
    /// Time of the sign-in that it served; none while it can be used.
    pub used_at: Option<DateTimeUtc>,
    /// How often a contract wallet was asked about a signature of it.
    pub checks: i32,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
