//! Accounts that the chain proved to own wallets which pay secure payments with a list.

use sea_orm::entity::prelude::*;

/// A row.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "secure_payment_owners")]
pub struct Model {
    /// Tenant of the secure payment.
    #[sea_orm(primary_key, auto_increment = false)]
    pub platform_id: String,
    /// The secure payment.
    #[sea_orm(primary_key, auto_increment = false)]
    pub secure_payment_id: String,
    /// Canonical address of the wallet.
    #[sea_orm(primary_key, auto_increment = false)]
    pub wallet: String,
    /// Canonical address of the account.
    #[sea_orm(primary_key, auto_increment = false)]
    pub account: String,
    /// When it was proven last.
    pub proven_at: DateTimeUtc,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
