//! The requests that a secure payment pays, with the fees fixed when the secure payment was created.

use sea_orm::entity::prelude::*;

/// A row.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "secure_payment_items")]
pub struct Model {
    /// Tenant.
    #[sea_orm(primary_key, auto_increment = false)]
    pub platform_id: String,
    /// The secure payment.
    #[sea_orm(primary_key, auto_increment = false)]
    pub secure_payment_id: String,
    /// Position, from 0.
    #[sea_orm(primary_key, auto_increment = false)]
    pub position: i32,
    /// Row of the request.
    pub request_row: String,
    /// Public id of the request.
    pub request_id: String,
    /// Fee on top of the amount, in basis points.
    pub fee_basis_points: Option<i32>,
    /// Canonical address that receives the fee.
    pub fee_address: Option<String>,
    /// Whether the fee comes from the settings of the client ID.
    pub is_own_fee: bool,
    /// The service's own fee in basis points.
    pub protocol_basis_points: Option<i32>,
    /// Canonical address that receives the service's own fee.
    pub protocol_address: Option<String>,
    /// Maximum units of the service's own fee in one payment, decimal; none without a limit.
    pub protocol_cap: Option<String>,
    /// Fees of an orchestrator, captured at creation: a JSON array; none without any.
    #[sea_orm(column_type = "JsonBinary", nullable)]
    pub orchestrator_fees: Option<Json>,
    /// Token of the link that pays the same request alone; none unless the secure payment is a multicall.
    pub child_token: Option<String>,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
