//! Queries of the last hour to screening providers about wallets of a secure payment.

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
    /// The wallet; an EVM address is in lower case.
    #[sea_orm(primary_key, auto_increment = false)]
    pub wallet: String,
    /// When it was last queried.
    pub asked_at: DateTimeUtc,
    /// Consecutive queries without a result.
    pub failures: i32,
    /// Whether the last query is still in flight.
    pub is_open: bool,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
