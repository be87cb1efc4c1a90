//! Where payees want to be paid.

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
    /// Which payers are screened; absent when no policy was set.
    pub policy_mode: Option<String>,
    /// Who screens them.
    pub policy_provider: Option<String>,
    /// Part of the policy.
    pub hides_until_approved: bool,
    /// Part of the policy.
    pub hides_payee: bool,
    /// Whether the owner of the wallet created it, here or elsewhere.
    pub is_claimed: bool,
    /// Whether it is the one that its wallet is paid at.
    pub is_active: bool,
    /// Time of creation.
    pub created_at: DateTimeUtc,
    /// Last change.
    pub updated_at: DateTimeUtc,
    /// Whether the owner of the wallet created it on this platform.
    pub is_set_up: bool,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
