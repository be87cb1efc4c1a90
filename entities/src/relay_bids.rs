//! Signed forms of the transactions of this service, each at its price.

use sea_orm::entity::prelude::*;

/// A row.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "relay_bids")]
pub struct Model {
    /// Network.
    #[sea_orm(primary_key, auto_increment = false)]
    pub network: String,
    /// Canonical address of the account.
    #[sea_orm(primary_key, auto_increment = false)]
    pub relayer: String,
    /// Place of the transaction among all of the account.
    #[sea_orm(primary_key, auto_increment = false)]
    pub nonce: i64,
    /// Number of the bid, from 0.
    #[sea_orm(primary_key, auto_increment = false)]
    pub bid: i32,
    /// What it pays for a unit of gas at most.
    pub max_fee: String,
    /// The part of that for whoever makes the block.
    pub tip: String,
    /// Hash, 64 hexadecimal digits.
    pub tx_hash: String,
    /// What is sent, in hexadecimal digits.
    pub raw: String,
    /// When it was signed.
    pub signed_at: DateTimeUtc,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
