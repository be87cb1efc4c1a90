//! The leader of each network.

use sea_orm::entity::prelude::*;

/// A row.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "chain_leaders")]
pub struct Model {
    /// Network.
    #[sea_orm(primary_key, auto_increment = false)]
    pub network: String,
    /// Number of the current term; each new leader gets a larger number.
    pub term: i64,
    /// Instance that leads; none after a hand-over.
    pub holder: Option<String>,
    /// When the lease of the leading instance ends, by the clock of the database.
    pub lease_until: DateTimeUtc,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
