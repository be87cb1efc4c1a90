//! Receivers of webhooks.

use sea_orm::entity::prelude::*;

/// A row.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "webhook_endpoints")]
pub struct Model {
    /// ULID.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: String,
    /// Platform or orchestrator.
    pub owner_id: String,
    /// Client ID that the endpoint belongs to; none for the whole platform.
    pub client_row: Option<String>,
    /// URL.
    pub url: String,
    /// Encrypted signing secret.
    pub secret_sealed: String,
    /// Encrypted previous secrets, each with the time until which webhooks are signed with it, too; none if no secret
    /// was rotated.
    pub former_secrets: Option<Json>,
    /// Whether the service sends events to the endpoint.
    pub is_active: bool,
    /// Whether the endpoint may receive personal data.
    pub is_approved: bool,
    /// Time of creation.
    pub created_at: DateTimeUtc,
    /// Prefix of the endpoint's webhook headers; none if each header is sent with every prefix in the settings.
    pub header_prefix: Option<String>,
    /// Since when all deliveries to the endpoint have failed.
    pub failing_since: Option<DateTimeUtc>,
    /// When a delivery to the endpoint last failed in its fourth attempt; none unless the endpoint is failing.
    pub failed_at: Option<DateTimeUtc>,
    /// Whether the endpoint responds again and failed deliveries may still wait for a recovery round.
    pub is_recovering: bool,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
