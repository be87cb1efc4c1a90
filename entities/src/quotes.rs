//! Quotes that were handed out: token units for a part of a request, until an end.

use sea_orm::entity::prelude::*;

/// A row.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "quotes")]
pub struct Model {
    /// Tenant of the request.
    #[sea_orm(primary_key, auto_increment = false)]
    pub platform_id: String,
    /// Hash of the columns from the tenant to the time of the quote and of who asked, 64 hexadecimal digits.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: String,
    /// Row of the request.
    pub request_row: String,
    /// How much of the request it settles.
    pub settlement_units: String,
    /// Token units for the payee, without fees.
    pub units: String,
    /// By which rate, a decimal text.
    pub rate: String,
    /// Who told that rate.
    pub rate_provider: String,
    /// When it was first handed out.
    pub quoted_at: DateTimeUtc,
    /// When it ends.
    pub ends_at: DateTimeUtc,
    /// Row of the client ID that asked; an empty text for whoever acts for the whole platform.
    pub client_row: String,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
