//! Signed versions of the relayer account's transactions, each with its own price.

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
    /// Nonce of the transaction.
    #[sea_orm(primary_key, auto_increment = false)]
    pub nonce: i64,
    /// Number of the bid, from 0.
    #[sea_orm(primary_key, auto_increment = false)]
    pub bid: i32,
    /// Maximum fee for a unit of gas.
    pub max_fee: String,
    /// The part of the maximum fee that goes to the block producer.
    pub tip: String,
    /// Hash, 64 hexadecimal digits.
    pub tx_hash: String,
    /// The signed transaction in hexadecimal digits.
    pub raw: String,
    /// When it was signed.
    pub signed_at: DateTimeUtc,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
