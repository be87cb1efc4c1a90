//! Groups of payments and the number of payments in each. A group belongs to a platform or to one of its client IDs.
//! Its payments have the same kind and pair of currencies, and are all hidden or all visible. Each recorded payment
//! updates the counts. A search first finds the groups that match, and then reads only the payments of these groups.

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
    /// Whether a link hides the payments of the group from callers that are not approved.
    #[sea_orm(primary_key, auto_increment = false)]
    pub is_hidden: bool,
    /// Key of the group, computed from the columns above. Each payment of the group stores the key, too.
    pub group_key: i64,
    /// Number of its payments.
    pub payments: i64,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
