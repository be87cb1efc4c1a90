//! Links of client IDs to orchestrators, one for each client ID.

use sea_orm::entity::prelude::*;

/// A row.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "orchestrator_links")]
pub struct Model {
    /// Tenant.
    #[sea_orm(primary_key, auto_increment = false)]
    pub platform_id: String,
    /// Row of the client ID.
    #[sea_orm(primary_key, auto_increment = false)]
    pub client_row: String,
    /// The orchestrator.
    pub orchestrator_id: String,
    /// State.
    pub status: String,
    /// When the orchestrator linked the client ID.
    pub linked_at: DateTimeUtc,
    /// When the link ended; none while it is active.
    pub ended_at: Option<DateTimeUtc>,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
