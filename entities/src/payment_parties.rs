//! Wallets that took part in a payment, for each group that it belongs to, so that a search for payments of a wallet is one
//! range of one index in each of its groups.

use sea_orm::entity::prelude::*;

/// A row.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "payment_parties")]
pub struct Model {
    /// Tenant.
    #[sea_orm(primary_key, auto_increment = false)]
    pub platform_id: String,
    /// The 20 bytes of its address, after 0x41 on Tron.
    #[sea_orm(primary_key, auto_increment = false)]
    pub wallet: Vec<u8>,
    /// Group of the payment: that of the platform, and in a further row that of its client ID.
    #[sea_orm(primary_key, auto_increment = false)]
    pub group_key: i64,
    /// Whether it received the payment.
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
