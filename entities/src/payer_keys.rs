//! Data keys of payers, wrapped by a master key. A payer without a data key is erased.

use sea_orm::entity::prelude::*;

/// A row.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "payer_keys")]
pub struct Model {
    /// Payer.
    #[sea_orm(primary_key, auto_increment = false)]
    pub payer_id: String,
    /// Tenant.
    pub platform_id: String,
    /// The key, encrypted.
    pub data_key: String,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
