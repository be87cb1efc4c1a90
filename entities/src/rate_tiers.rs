//! Rate limit tiers that differ from the default.

use sea_orm::entity::prelude::*;

/// A row.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "rate_tiers")]
pub struct Model {
    /// Platform, or client ID row.
    #[sea_orm(primary_key, auto_increment = false)]
    pub subject: String,
    /// Name of the tier.
    pub tier: String,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
