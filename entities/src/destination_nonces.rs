//! Data about payee destinations that wallets were asked to sign.

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
    /// Client ID that asked.
    pub client_row: String,
    /// What is agreed to.
    pub action: String,
    /// Canonical address of the payee.
    pub wallet: String,
    /// Network.
    pub network: String,
    /// Canonical address of the token.
    pub token: String,
    /// End of its life.
    pub expires_at: DateTimeUtc,
    /// When it was used up.
    pub used_at: Option<DateTimeUtc>,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
