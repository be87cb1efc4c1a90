//! The lookup key, encrypted, and one check value for each master key.

use sea_orm::entity::prelude::*;

/// A row.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "key_material")]
pub struct Model {
    /// Name.
    #[sea_orm(primary_key, auto_increment = false)]
    pub name: String,
    /// Encrypted value.
    pub sealed: String,
    /// Time of creation.
    pub created_at: DateTimeUtc,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
