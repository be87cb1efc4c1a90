//! Wallets that have signed in, each with the platform that belongs to it.

use sea_orm::entity::prelude::*;

/// A row.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "wallets")]
pub struct Model {
    /// Canonical address.
    #[sea_orm(primary_key, auto_increment = false)]
    pub address: String,
    /// The platform of this wallet.
    pub platform_id: String,
    /// Time of the first sign-in.
    pub created_at: DateTimeUtc,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
