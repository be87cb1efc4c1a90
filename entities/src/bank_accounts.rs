//! Bank accounts of payers. `details` holds the personal data, encrypted with the payer's own key.

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
    /// Keyed hash of the partner's id of the account; none once the payer is erased.
    pub partner_hash: Option<String>,
    /// Keyed hash of the submitted form and of how often the same form failed before; none once the payer is erased.
    pub content_hash: Option<String>,
    /// Form, ids and what the partner reported, encrypted; none once the payer is erased.
    pub details: Option<String>,
    /// State.
    pub status: String,
    /// State that the partner reported while the payer was not approved.
    pub told: Option<String>,
    /// Number of the newest state of the account. It grows by one with each change, which an event reports.
    pub version: i64,
    /// Version of the account in the partner's newest known report.
    pub partner_version: i64,
    /// Time of creation.
    pub created_at: DateTimeUtc,
    /// When the state changed last.
    pub changed_at: DateTimeUtc,
    /// When the service queries the partner next; none when no query is due.
    pub ask_at: Option<DateTimeUtc>,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
