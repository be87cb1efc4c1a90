//! Quotes for requests: the token units that pay a part of a request until an expiry.

use sea_orm::entity::prelude::*;

/// A row.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "quotes")]
pub struct Model {
    /// Tenant of the request.
    #[sea_orm(primary_key, auto_increment = false)]
    pub platform_id: String,
    /// Hash of the quote's content and of the caller, 64 hexadecimal digits. The content is every column from the
    /// tenant to the time of the quote.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: String,
    /// Row of the request.
    pub request_row: String,
    /// Settlement units that the quote credits to the request.
    pub settlement_units: String,
    /// Token units for the payee, without fees.
    pub units: String,
    /// Rate, a decimal text.
    pub rate: String,
    /// Source of the rate in `rate`.
    pub rate_provider: String,
    /// When the quote was first returned.
    pub quoted_at: DateTimeUtc,
    /// When it expires.
    pub ends_at: DateTimeUtc,
    /// Row of the client ID that called; an empty text for a caller of the whole platform.
    pub client_row: String,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
