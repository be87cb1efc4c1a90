//! To which bank account a request is paid out: the one for which it was quoted first.

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
    /// When it was quoted first.
    pub created_at: DateTimeUtc,
    /// When the operator closed it.
    pub closed_at: Option<DateTimeUtc>,
    /// How many payments the request had then.
    pub closed_payments: Option<i32>,
    /// What the operator noted.
    pub closed_note: Option<String>,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
