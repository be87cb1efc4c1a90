//! Accounts that own a wallet according to a check on chain. The wallet pays a secure payment with an allow list of
//! payers.

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
    /// When it was last proven.
    pub proven_at: DateTimeUtc,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
