//! Wallets of a secure payment that providers were asked about within the last hour.

use sea_orm::entity::prelude::*;

/// A row.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "screening_questions")]
pub struct Model {
    /// Tenant of the secure payment.
    #[sea_orm(primary_key, auto_increment = false)]
    pub platform_id: String,
    /// The secure payment.
    #[sea_orm(primary_key, auto_increment = false)]
    pub secure_payment_id: String,
    /// The wallet, an EVM one in lower case.
    #[sea_orm(primary_key, auto_increment = false)]
    pub wallet: String,
    /// When it was asked about last.
    pub asked_at: DateTimeUtc,
    /// Questions in a row that came to no result.
    pub failures: i32,
    /// Whether the last one waits for its answer.
    pub is_open: bool,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
