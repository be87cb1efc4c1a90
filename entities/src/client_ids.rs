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
    /// Payee destination that the client ID is bound to.
    pub payee_destination_id: Option<String>,
    /// Limits on the requests of the client ID; none without limits.
    #[sea_orm(column_type = "JsonBinary", nullable)]
    pub limits: Option<Json>,
    /// The service stores this value for the owner and does not use it.
    pub default_pre_approval_expiry_s: Option<i64>,
    /// The service stores this value for the owner and does not use it.
    pub default_authorization_expiry_s: Option<i64>,
    /// Time of creation.
    pub created_at: DateTimeUtc,
    /// Last change.
    pub updated_at: DateTimeUtc,
    /// Last authenticated use.
    pub last_used_at: Option<DateTimeUtc>,
    /// Orchestrator that the platform allows to link the client ID.
    pub orchestrator_id: Option<String>,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    /// The link of the client ID to an orchestrator.
    #[sea_orm(
        belongs_to = "super::orchestrator_links::Entity",
        from = "(Column::PlatformId, Column::Id)",
        to = "(super::orchestrator_links::Column::PlatformId, super::orchestrator_links::Column::ClientRow)"
    )]
    Link,
}

impl Related<super::orchestrator_links::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::Link.def()
    }
}

impl ActiveModelBehavior for ActiveModel {}
