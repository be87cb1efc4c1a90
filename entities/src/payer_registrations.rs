//! Registrations of payers that the partner may have accepted although no payer row exists yet. A row contains no
//! personal data.

use sea_orm::entity::prelude::*;

/// A row.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "payer_registrations")]
pub struct Model {
    /// Idempotency key under which the service registers the payer at the partner: a keyed hash of the tenant and of
    /// the tenant's own id of the payer.
    #[sea_orm(primary_key, auto_increment = false)]
    pub partner_key: String,
    /// Tenant.
    pub platform_id: String,
    /// Until when a call that registers or erases the payer at the partner may be in flight.
    pub in_flight_until: DateTimeUtc,
    /// When erasure was requested.
    pub erasing_at: Option<DateTimeUtc>,
    /// When erasure is requested from the partner; none when no erasure was requested.
    pub ask_at: Option<DateTimeUtc>,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
