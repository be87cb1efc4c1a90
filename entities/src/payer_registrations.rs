//! First registrations of payers that the partner may have taken, and that came to no payer here yet. Nothing in a row names
//! anybody.

use sea_orm::entity::prelude::*;

/// A row.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "payer_registrations")]
pub struct Model {
    /// Under which the partner keeps the payer: a keyed hash of the tenant and its own id of the payer.
    #[sea_orm(primary_key, auto_increment = false)]
    pub partner_key: String,
    /// Tenant.
    pub platform_id: String,
    /// Until when a call that hands the partner the form, or has it forgotten, may be in flight.
    pub in_flight_until: DateTimeUtc,
    /// When erasure was asked for.
    pub erasing_at: Option<DateTimeUtc>,
    /// When the partner is asked to forget it; none while nobody wants that.
    pub ask_at: Option<DateTimeUtc>,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
