//! What happened, with the bytes that are told.

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
    /// Client ID that the object belongs to.
    pub client_row: Option<String>,
    /// Name on the wire.
    pub kind: String,
    /// The same fact has the same key.
    pub deduplication_key: String,
    /// Public id of the request that it is about.
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
