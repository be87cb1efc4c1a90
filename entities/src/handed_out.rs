//! Fees of calldata that was handed out for a request, one row for all equal answers.

use sea_orm::entity::prelude::*;

/// A row.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "handed_out")]
pub struct Model {
    /// Tenant of the request.
    #[sea_orm(primary_key, auto_increment = false)]
    pub platform_id: String,
    /// Row of the request.
    #[sea_orm(primary_key, auto_increment = false)]
    pub request_row: String,
    /// Hash of who asked and of what was handed out, 64 hexadecimal digits.
    #[sea_orm(primary_key, auto_increment = false)]
    pub content_hash: String,
    /// Rate of the fee in basis points, none without a fee.
    pub fee_basis_points: Option<i32>,
    /// Canonical address that receives the fee.
    pub fee_address: Option<String>,
    /// When it was first handed out.
    pub handed_out_at: DateTimeUtc,
    /// Row of the client ID that asked; empty where a key or session did.
    pub client_row: String,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
