//! Number of payments of a group in which a wallet takes part. A wallet has at most two rows for a group: one for the
//! payments that it received, and one for the payments in which it is the payer or the account behind the payer. Each
//! recorded payment updates the numbers.

use sea_orm::entity::prelude::*;

/// A row.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "payment_wallets")]
pub struct Model {
    /// Tenant.
    #[sea_orm(primary_key, auto_increment = false)]
    pub platform_id: String,
    /// The 20 bytes of the address, after 0x41 on Tron.
    #[sea_orm(primary_key, auto_increment = false)]
    pub wallet: Vec<u8>,
    /// Client ID of the group; empty for groups of the whole platform.
    #[sea_orm(primary_key, auto_increment = false)]
    pub client_row: String,
    /// Group.
    #[sea_orm(primary_key, auto_increment = false)]
    pub group_key: i64,
    /// Whether the wallet received the payments.
    #[sea_orm(primary_key, auto_increment = false)]
    pub is_payee: bool,
    /// Number of payments.
    pub payments: i64,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
