//! Receivers of webhooks.

use sea_orm::entity::prelude::*;

/// A row.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "webhook_endpoints")]
pub struct Model {
    /// ULID.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: String,
    /// Platform or orchestrator.
    pub owner_id: String,
    /// Client ID that it belongs to, none for the whole platform.
    pub client_row: Option<String>,
    /// Where to.
    pub url: String,
    /// Sealed signing secret.
    pub secret_sealed: String,
    /// Sealed secrets of before, each with the end of its overlap; none when there was no rotation.
    pub former_secrets: Option<Json>,
    /// Whether events are sent to it.
    pub is_active: bool,
    /// Whether it may be told about persons.
    pub is_approved: bool,
    /// Time of creation.
    pub created_at: DateTimeUtc,
    /// Prefix of the headers that it reads; none for every one of the settings.
    pub header_prefix: Option<String>,
    /// Since when it takes nothing.
    pub failing_since: Option<DateTimeUtc>,
    /// When a delivery to it failed for the fourth time last, while it takes nothing.
    pub failed_at: Option<DateTimeUtc>,
    /// Whether it answers again and something may still wait for it.
    pub is_recovering: bool,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
