//! Results of a screening provider about a wallet of a secure payment. A row never changes.

use sea_orm::entity::prelude::*;

/// A row.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "screenings")]
pub struct Model {
    /// Tenant of the secure payment.
    #[sea_orm(primary_key, auto_increment = false)]
    pub platform_id: String,
    /// The secure payment.
    #[sea_orm(primary_key, auto_increment = false)]
    pub secure_payment_id: String,
    /// The wallet; an EVM address is in lower case.
    #[sea_orm(primary_key, auto_increment = false)]
    pub wallet: String,
    /// Whether the wallet is the account of a person or a contract.
    pub wallet_kind: String,
    /// The account that controls the contract.
    pub parent_wallet: Option<String>,
    /// Result.
    pub status: String,
    /// The provider.
    pub provider: String,
    /// The provider's own word for the result.
    pub raw_status: String,
    /// When it was found.
    pub evaluated_at: DateTimeUtc,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
