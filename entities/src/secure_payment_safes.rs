//! Safe accounts that got calldata of a secure payment.

use sea_orm::entity::prelude::*;

/// A row.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "secure_payment_safes")]
pub struct Model {
    /// Tenant of the secure payment.
    #[sea_orm(primary_key, auto_increment = false)]
    pub platform_id: String,
    /// The secure payment.
    #[sea_orm(primary_key, auto_increment = false)]
    pub secure_payment_id: String,
    /// Canonical address of the Safe.
    #[sea_orm(primary_key, auto_increment = false)]
    pub safe: String,
    /// When it first got calldata.
    pub handed_at: DateTimeUtc,
    /// When it first locked the link; none before.
    pub locked_at: Option<DateTimeUtc>,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
