//! Executed payments of recurring payments, and the requests that these payments pay.

use sea_orm::entity::prelude::*;

/// A row.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "schedule_executions")]
pub struct Model {
    /// Tenant.
    #[sea_orm(primary_key, auto_increment = false)]
    pub platform_id: String,
    /// The recurring payment.
    #[sea_orm(primary_key, auto_increment = false)]
    pub schedule_id: String,
    /// Which payment, from 1.
    #[sea_orm(primary_key, auto_increment = false)]
    pub number: i32,
    /// Row of the request.
    pub request_row: String,
    /// Public id of the request.
    pub request_id: String,
    /// How often it failed.
    pub failures: i32,
    /// Time of creation.
    pub created_at: DateTimeUtc,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
