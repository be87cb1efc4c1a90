//! Payee destinations: the network and token in which each payee wants to be paid.

use sea_orm::entity::prelude::*;

/// A row.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "payee_destinations")]
pub struct Model {
    /// ULID.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: String,
    /// Tenant.
    pub platform_id: String,
    /// Canonical address of the payee.
    pub wallet: String,
    /// Network.
    pub network: String,
    /// Canonical address of the token.
    pub token: String,
    /// Which payers are screened; none if no policy was set.
    pub policy_mode: Option<String>,
    /// Who screens them.
    pub policy_provider: Option<String>,
    /// Part of the policy.
    pub hides_until_approved: bool,
    /// Part of the policy.
    pub hides_payee: bool,
    /// Whether the owner of the wallet created the destination, on this platform or on another one.
    pub is_claimed: bool,
    /// Whether the wallet is paid at this destination.
    pub is_active: bool,
    /// Time of creation.
    pub created_at: DateTimeUtc,
    /// Last change.
    pub updated_at: DateTimeUtc,
    /// Whether the owner of the wallet created the destination on this platform.
    pub is_set_up: bool,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
