//! Stored responses of operations that were called with an idempotency key.

use sea_orm::entity::prelude::*;

/// A row.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "idempotency_keys")]
pub struct Model {
    /// Platform or orchestrator.
    #[sea_orm(primary_key, auto_increment = false)]
    pub owner_id: String,
    /// Credential and operation.
    #[sea_orm(primary_key, auto_increment = false)]
    pub scope: String,
    /// Key of the caller.
    #[sea_orm(primary_key, auto_increment = false)]
    pub key: String,
    /// Hash of the body.
    pub body_hash: String,
    /// Body of the response.
    pub response: String,
    /// Time of the call.
    pub created_at: DateTimeUtc,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
