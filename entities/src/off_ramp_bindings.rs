//! The bank account that receives the payout of each request: the account of the first quote of the request.

use sea_orm::entity::prelude::*;

/// A row.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "off_ramp_bindings")]
pub struct Model {
    /// Tenant of the request.
    #[sea_orm(primary_key, auto_increment = false)]
    pub platform_id: String,
    /// Row of the request.
    #[sea_orm(primary_key, auto_increment = false)]
    pub request_row: String,
    /// Row of the payer.
    pub payer_id: String,
    /// Row of the bank account.
    pub account_id: String,
    /// When the first quote of the request was issued.
    pub created_at: DateTimeUtc,
    /// When the operator closed the binding.
    pub closed_at: Option<DateTimeUtc>,
    /// Number of payments of the request when the operator closed the binding.
    pub closed_payments: Option<i32>,
    /// Note of the operator.
    pub closed_note: Option<String>,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
