//! Fee configs of orchestrators.

use sea_orm::entity::prelude::*;

/// A row.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "fee_configs")]
pub struct Model {
    /// Orchestrator that gets the fee.
    #[sea_orm(primary_key, auto_increment = false)]
    pub orchestrator_id: String,
    /// ULID.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: String,
    /// Row of the client ID whose payments carry the fee; empty for all client IDs of the orchestrator.
    pub scope: String,
    /// Public text of the client ID in `scope`; none if the config applies to all client IDs.
    pub client_id: Option<String>,
    /// Direction of the payments.
    pub flow: String,
    /// Who bears the fee.
    pub bearer: String,
    /// Rate in basis points.
    pub basis_points: i32,
    /// Maximum fee of one payment in US dollars, a decimal text; none without a limit.
    pub cap_usd: Option<String>,
    /// Canonical EVM address that gets the fee.
    pub evm_receiver: Option<String>,
    /// Canonical Tron address that gets the fee.
    pub tron_receiver: Option<String>,
    /// Whether new payments carry the fee.
    pub status: String,
    /// Time of creation.
    pub created_at: DateTimeUtc,
    /// Last change.
    pub updated_at: DateTimeUtc,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
