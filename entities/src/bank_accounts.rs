//! Bank accounts of payers. All that names a person is in `details`, sealed with the payer's own key.

use sea_orm::entity::prelude::*;

/// A row.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "bank_accounts")]
pub struct Model {
    /// ULID.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: String,
    /// Tenant.
    pub platform_id: String,
    /// Payer.
    pub payer_id: String,
    /// The public id, a UUID.
    pub payment_detail_id: String,
    /// Keyed hash of the partner's id of the account; none once erased.
    pub partner_hash: Option<String>,
    /// Keyed hash of what was handed in, and of how often it failed before; none once erased.
    pub content_hash: Option<String>,
    /// Form, ids and what the partner told, sealed; none once erased.
    pub details: Option<String>,
    /// State.
    pub status: String,
    /// What the partner told while the payer was not approved.
    pub told: Option<String>,
    /// Number of the last change that was told.
    pub version: i64,
    /// Number of the last change of the partner that is known.
    pub partner_version: i64,
    /// Time of creation.
    pub created_at: DateTimeUtc,
    /// When the state changed last.
    pub changed_at: DateTimeUtc,
    /// When the partner is asked next; none when nothing is open.
    pub ask_at: Option<DateTimeUtc>,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
