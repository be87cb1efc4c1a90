//! How many payments each wallet takes part in, kept with every payment.

use sea_orm::entity::prelude::*;

/// A row.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "payment_wallets")]
pub struct Model {
    /// Tenant.
    #[sea_orm(primary_key, auto_increment = false)]
    pub platform_id: String,
    /// The 20 bytes of its address, after 0x41 on Tron.
    #[sea_orm(primary_key, auto_increment = false)]
    pub wallet: Vec<u8>,
    /// Number of payments.
    pub payments: i64,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
