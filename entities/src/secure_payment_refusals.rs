//! Wallets that may not pay a secure payment, tried to, and were told about.

use sea_orm::entity::prelude::*;

/// A row.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "secure_payment_refusals")]
pub struct Model {
    /// Tenant.
    #[sea_orm(primary_key, auto_increment = false)]
    pub platform_id: String,
    /// The secure payment.
    #[sea_orm(primary_key, auto_increment = false)]
    pub secure_payment_id: String,
    /// Canonical address.
    #[sea_orm(primary_key, auto_increment = false)]
    pub wallet: String,
    /// How often it was told about.
    pub occasions: i64,
    /// When it was told about last.
    pub told_at: DateTimeUtc,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
