//! Payers. All that names one is in `details`, sealed with the payer's own key.

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
    /// Keyed hash of the tenant's own id of the payer; none once erased.
    pub client_user_hash: Option<String>,
    /// Keyed hash of the partner's id of the payer; none once erased.
    pub partner_hash: Option<String>,
    /// Form, ids and what the partner told, sealed; none once erased.
    pub details: Option<String>,
    /// Identity.
    pub kyc: String,
    /// Terms.
    pub agreement: String,
    /// Number of the last change that was told.
    pub version: i64,
    /// Number of the last change of the partner that is known.
    pub partner_version: i64,
    /// Time of creation.
    pub created_at: DateTimeUtc,
    /// When identity or terms changed last.
    pub changed_at: DateTimeUtc,
    /// When the partner is asked next; none when nothing is open.
    pub ask_at: Option<DateTimeUtc>,
    /// When erasure was asked for.
    pub erasing_at: Option<DateTimeUtc>,
    /// When it was done.
    pub erased_at: Option<DateTimeUtc>,
    /// Until when a call that hands the partner something of it, or has it forgotten, may be in flight.
    pub in_flight_until: Option<DateTimeUtc>,
    /// Since when the tenant wants it erased, while its money is on its way.
    pub erasure_wanted_at: Option<DateTimeUtc>,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
