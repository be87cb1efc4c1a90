//! Wallets that took part in payments. A payment has one row for each pair of a wallet that took part and a group of
//! the payment. A search for the payments of a wallet reads one index range in each group.

use sea_orm::entity::prelude::*;

/// A row.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "payment_parties")]
pub struct Model {
    /// Tenant.
    #[sea_orm(primary_key, auto_increment = false)]
    pub platform_id: String,
    /// The 20 bytes of the address, after 0x41 on Tron.
    #[sea_orm(primary_key, auto_increment = false)]
    pub wallet: Vec<u8>,
    /// A group of the payment. One row has the group of the platform; a second row has the group of the client ID, if
    /// there is one.
    #[sea_orm(primary_key, auto_increment = false)]
    pub group_key: i64,
    /// Whether the wallet received the payment.
    #[sea_orm(primary_key, auto_increment = false)]
    pub is_payee: bool,
    /// Time of the block of the payment.
    #[sea_orm(primary_key, auto_increment = false)]
    pub paid_at: DateTimeUtc,
    /// Payment.
    #[sea_orm(primary_key, auto_increment = false)]
    pub payment_id: String,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
