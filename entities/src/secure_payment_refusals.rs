//! Wallets that were rejected as payers of a secure payment, and the events that reported each rejection.

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
    /// Number of events that reported the wallet.
    pub occasions: i64,
    /// Time of the last of these events.
    pub told_at: DateTimeUtc,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
