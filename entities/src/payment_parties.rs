//! Wallets that took part in a payment, so that a search by wallet is one range of one index.

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
    /// Time of the block of the payment.
    #[sea_orm(primary_key, auto_increment = false)]
    pub paid_at: DateTimeUtc,
    /// Payment.
    #[sea_orm(primary_key, auto_increment = false)]
    pub payment_id: String,
    /// Whether it received the payment.
    pub is_payee: bool,
    /// Client ID of the payment.
    pub client_row: Option<String>,
    /// Group of the payment.
    pub group_key: i64,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
