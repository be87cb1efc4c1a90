//! Data that a wallet signs, once, to add or deactivate a payee destination.

use sea_orm::entity::prelude::*;

/// A row.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "destination_nonces")]
pub struct Model {
    /// Random text.
    #[sea_orm(primary_key, auto_increment = false)]
    pub nonce: String,
    /// Tenant.
    pub platform_id: String,
    /// Client ID that requested the data.
    pub client_row: String,
    /// Action that the signature of the wallet allows.
    pub action: String,
    /// Canonical address of the payee.
    pub wallet: String,
    /// Network.
    pub network: String,
    /// Canonical address of the token.
    pub token: String,
    /// When it expires.
    pub expires_at: DateTimeUtc,
    /// When it was used.
    pub used_at: Option<DateTimeUtc>,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
