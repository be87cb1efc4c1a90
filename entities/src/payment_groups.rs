//! Groups of payments, and how many there are of each: those of a platform, or of one of its client IDs, with one kind
//! and one pair of currencies, hidden or not. Kept with every payment, so that no search has to look at rows that do not match.

use sea_orm::entity::prelude::*;

/// A row.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "payment_groups")]
pub struct Model {
    /// Tenant.
    #[sea_orm(primary_key, auto_increment = false)]
    pub platform_id: String,
    /// Client ID; empty for the payments of the whole platform.
    #[sea_orm(primary_key, auto_increment = false)]
    pub client_row: String,
    /// Kind of the payments.
    #[sea_orm(primary_key, auto_increment = false)]
    pub kind: String,
    /// Currency id of the invoices.
    #[sea_orm(primary_key, auto_increment = false)]
    pub invoice_currency: String,
    /// Currency id of the payments.
    #[sea_orm(primary_key, auto_increment = false)]
    pub payment_currency: String,
    /// Whether a link hides them from who is not approved.
    #[sea_orm(primary_key, auto_increment = false)]
    pub is_hidden: bool,
    /// What its payments carry; follows from the columns above.
    pub group_key: i64,
    /// Number of its payments.
    pub payments: i64,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
