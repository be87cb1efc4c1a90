//! Payers. `details` holds the personal data, encrypted with the payer's own key.

use sea_orm::entity::prelude::*;

/// A row.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "payers")]
pub struct Model {
    /// ULID.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: String,
    /// Tenant.
    pub platform_id: String,
    /// The public id, a UUID.
    pub user_id: String,
    /// Keyed hash of the tenant's own id of the payer; none once the payer is erased.
    pub client_user_hash: Option<String>,
    /// Keyed hash of the partner's id of the payer; none once the payer is erased.
    pub partner_hash: Option<String>,
    /// Form, ids and what the partner reported, encrypted; none once the payer is erased.
    pub details: Option<String>,
    /// Identity.
    pub kyc: String,
    /// Terms.
    pub agreement: String,
    /// Number of the newest state of the payer. It grows by one with each change, which an event reports.
    pub version: i64,
    /// Version of the payer in the partner's newest known report.
    pub partner_version: i64,
    /// Time of creation.
    pub created_at: DateTimeUtc,
    /// When identity or terms changed last.
    pub changed_at: DateTimeUtc,
    /// When the service queries the partner next; none when no query is due.
    pub ask_at: Option<DateTimeUtc>,
    /// When erasure was requested.
    pub erasing_at: Option<DateTimeUtc>,
    /// When the payer was erased.
    pub erased_at: Option<DateTimeUtc>,
    /// Until when a call that registers, changes or erases the payer at the partner may be in flight.
    pub in_flight_until: Option<DateTimeUtc>,
    /// Since when the tenant has wanted the payer erased, while money of the payer is in flight.
    pub erasure_wanted_at: Option<DateTimeUtc>,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
