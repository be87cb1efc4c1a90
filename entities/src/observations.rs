//! Payments to known requests that are on chain and not yet final.

use sea_orm::entity::prelude::*;

/// A row.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "observations")]
pub struct Model {
    /// Network.
    #[sea_orm(primary_key, auto_increment = false)]
    pub network: String,
    /// Transaction, 64 hexadecimal digits.
    #[sea_orm(primary_key, auto_increment = false)]
    pub tx_hash: String,
    /// Position among all events of the transaction.
    #[sea_orm(primary_key, auto_increment = false)]
    pub position: i32,
    /// Height of the block.
    pub block_number: i64,
    /// Hash of the block, 64 hexadecimal digits.
    pub block_hash: String,
    /// Index of the event in its block.
    pub log_index: i64,
    /// Canonical address of the contract that emitted the event.
    pub proxy: String,
    /// Keccak-256 of the reference, 64 hexadecimal digits.
    pub reference_topic: String,
    /// Canonical address of the token, none for the native coin.
    pub token: Option<String>,
    /// Canonical address of the receiver.
    pub payee: String,
    /// Token units that the event states.
    pub units: String,
    /// Token units of the fee.
    pub fee_units: String,
    /// Canonical address that received the fee.
    pub fee_address: Option<String>,
    /// Invoice amount of a conversion.
    pub invoice_units: Option<String>,
    /// Invoice fee of a conversion.
    pub invoice_fee_units: Option<String>,
    /// Canonical hash of the invoice currency of a conversion.
    pub conversion_currency: Option<String>,
    /// Maximum age in seconds of a rate that the conversion accepts.
    pub max_rate_timespan_s: Option<String>,
    /// When it was first seen.
    pub seen_at: DateTimeUtc,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
