//! Fees in the calldata that the service returned for a request. All equal responses share one row.

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
    /// Hash of the recipient and the content of the response, 64 hexadecimal digits.
    #[sea_orm(primary_key, auto_increment = false)]
    pub content_hash: String,
    /// Rate of the fee in basis points, none without a fee.
    pub fee_basis_points: Option<i32>,
    /// Canonical address that receives the fee.
    pub fee_address: Option<String>,
    /// When such a response was first returned.
    pub handed_out_at: DateTimeUtc,
    /// Row of the client ID that made the call; empty if the call was made with a key or session.
    pub client_row: String,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
