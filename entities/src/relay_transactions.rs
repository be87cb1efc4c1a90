//! Transactions of the relayer account of this service.

use sea_orm::entity::prelude::*;

/// A row.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "relay_transactions")]
pub struct Model {
    /// Network.
    #[sea_orm(primary_key, auto_increment = false)]
    pub network: String,
    /// Canonical address of the account.
    #[sea_orm(primary_key, auto_increment = false)]
    pub relayer: String,
    /// Nonce.
    #[sea_orm(primary_key, auto_increment = false)]
    pub nonce: i64,
    /// Tenant of the recurring payment.
    pub platform_id: String,
    /// The recurring payment.
    pub schedule_id: String,
    /// Number of the payment within the recurring payment, from 1.
    pub number: i32,
    /// Canonical address of the contract that is called.
    pub to_address: String,
    /// The calldata in hexadecimal digits.
    pub calldata: String,
    /// Gas limit.
    pub gas_limit: i64,
    /// State.
    pub state: String,
    /// Time of creation.
    pub created_at: DateTimeUtc,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
