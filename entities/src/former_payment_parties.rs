//! Wallets of payments as a version before wrote them, until these are moved.

use sea_orm::entity::prelude::*;

/// A row.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "former_payment_parties")]
pub struct Model {
    /// Tenant.
    #[sea_orm(primary_key, auto_increment = false)]
    pub platform_id: String,
    /// Canonical address.
    #[sea_orm(primary_key, auto_increment = false)]
    pub wallet: String,
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
