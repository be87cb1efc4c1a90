//! The bank account that each deposit address of the off-ramp partner was first issued for.

use sea_orm::entity::prelude::*;

/// A row.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "off_ramp_addresses")]
pub struct Model {
    /// Network of the token.
    #[sea_orm(primary_key, auto_increment = false)]
    pub network: String,
    /// Canonical address.
    #[sea_orm(primary_key, auto_increment = false)]
    pub deposit_address: String,
    /// Tenant.
    pub platform_id: String,
    /// Row of the payer.
    pub payer_id: String,
    /// Row of the bank account.
    pub account_id: String,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
