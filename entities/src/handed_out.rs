//! What calldata was handed out for a request, one row for all equal answers.

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
    /// Hashes of a conversion path, separated by commas, none without a conversion.
    pub path: Option<String>,
    /// Oldest accepted rate of a conversion in seconds; 0 for any.
    pub max_rate_age_s: Option<i64>,
    /// When it was first handed out.
    pub handed_out_at: DateTimeUtc,
    /// Row of the client ID whose answer binds; empty where a key or session asked, and where nothing binds.
    pub client_row: String,
    /// Whether payments are held to its fee.
    pub is_binding: bool,
    /// Rate of the service's own fee in basis points, none without one.
    pub protocol_basis_points: Option<i32>,
    /// Canonical address that receives the service's own fee.
    pub protocol_address: Option<String>,
    /// Most units of the service's own fee in one payment, decimal; none without a limit.
    pub protocol_cap: Option<String>,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
