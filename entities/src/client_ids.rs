//! Public client IDs of platforms.

use sea_orm::entity::prelude::*;

/// A row.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "client_ids")]
pub struct Model {
    /// ULID.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: String,
    /// Tenant.
    pub platform_id: String,
    /// Public text.
    pub client_id: String,
    /// Name for people.
    pub label: String,
    /// Array of origins.
    #[sea_orm(column_type = "JsonBinary")]
    pub allowed_domains: Json,
    /// State.
    pub status: String,
    /// Percentage as decimal text.
    pub fee_percentage: Option<String>,
    /// Canonical address that receives the fee.
    pub fee_address: Option<String>,
    /// Canonical address of the operator.
    pub operator_wallet: Option<String>,
    /// Payee destination that it is bound to.
    pub payee_destination_id: Option<String>,
    /// What may be asked for with it, none for everything.
    #[sea_orm(column_type = "JsonBinary", nullable)]
    pub limits: Option<Json>,
    /// Stored for the owner.
    pub default_pre_approval_expiry_s: Option<i64>,
    /// Stored for the owner.
    pub default_authorization_expiry_s: Option<i64>,
    /// Time of creation.
    pub created_at: DateTimeUtc,
    /// Last change.
    pub updated_at: DateTimeUtc,
    /// Last authenticated use.
    pub last_used_at: Option<DateTimeUtc>,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
