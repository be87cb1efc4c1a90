//! Readings of the feeds of rates: what a token cost in a fiat currency, or why nobody knows.

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
    /// What the reading was found to be.
    pub state: String,
    /// Who told it.
    pub provider: String,
    /// Invoice units for one token, a decimal text; none where the reading is no rate.
    pub rate: Option<String>,
    /// When that was true, by the word of the feed.
    pub as_of: Option<DateTimeUtc>,
    /// Why the reading is no rate.
    pub flaw: Option<String>,
}

/// Joins from this table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
