//! Transactions that payers report for a secure payment. A report alone settles nothing.

use sea_orm::entity::prelude::*;

/// A row.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "secure_payment_intents")]
pub struct Model {
    /// Tenant.
    #[sea_orm(primary_key, auto_increment = false)]
    pub platform_id: String,
    /// ULID.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: String,
    /// The secure payment.
    pub secure_payment_id: String,
    /// Hash of the transaction, 64 hexadecimal digits.
    pub tx_hash: String,
    /// Canonical address of the account that pays.
    pub payer: Option<String>,
    /// Canonical address of the externally owned account that controls the paying account.
    pub payer_eoa: Option<String>,
    /// When it was reported.
    pub created_at: DateTimeUtc,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
