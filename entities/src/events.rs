//! Events, each with the body that webhooks send.

use sea_orm::entity::prelude::*;

/// A row.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "events")]
pub struct Model {
    /// Platform or orchestrator.
    #[sea_orm(primary_key, auto_increment = false)]
    pub owner_id: String,
    /// ULID.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: String,
    /// Client ID that the object of the event belongs to.
    pub client_row: Option<String>,
    /// Name of the event in the API.
    pub kind: String,
    /// Deduplication key: events about the same fact have the same key.
    pub deduplication_key: String,
    /// Public id of the request that the event concerns.
    pub request_id: Option<String>,
    /// Bytes that are signed and sent.
    pub body: String,
    /// Time of creation.
    pub created_at: DateTimeUtc,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
