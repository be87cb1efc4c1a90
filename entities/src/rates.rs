//! Readings of the rate feeds: what a token cost in a fiat currency, or why that is unknown.

use sea_orm::entity::prelude::*;

/// A row.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "rates")]
pub struct Model {
    /// ULID.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: String,
    /// Symbol of the token.
    pub symbol: String,
    /// Id of the fiat currency.
    pub invoice: String,
    /// When the feeds were read.
    pub read_at: DateTimeUtc,
    /// Verdict on the reading.
    pub state: String,
    /// Its source.
    pub provider: String,
    /// Invoice units for one token, a decimal text; none if the feed returned no usable rate.
    pub rate: Option<String>,
    /// Time of the rate according to the feed.
    pub as_of: Option<DateTimeUtc>,
    /// Why the feed returned no usable rate.
    pub flaw: Option<String>,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
