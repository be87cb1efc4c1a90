//! Readings of the feeds of rates, and quotes that were handed out.

use crate::tables::{Creation, key};
use sea_orm_migration::{prelude::*, schema::*};

pub(crate) const MIGRATION: Creation = Creation {
    path: module_path!(),
    tables: &[rates, quotes],
    indexes: &INDEXES,
};

const INDEXES: [&str; 5] = [
    r#"CREATE UNIQUE INDEX "rates_key" ON "rates" ("symbol", "invoice", "read_at")"#,
    r#"CREATE INDEX "rates_read_at" ON "rates" ("read_at")"#,
    // The last accepted rate is found behind any number of readings that were none.
    r#"CREATE INDEX "rates_accepted" ON "rates" ("symbol", "invoice", "read_at") WHERE state = 'accepted'"#,
    r#"CREATE INDEX "quotes_request" ON "quotes" ("platform_id", "request_row")"#,
    r#"CREATE INDEX "quotes_ends_at" ON "quotes" ("ends_at")"#,
];

fn rates() -> TableCreateStatement {
    Table::create()
        .table("rates")
        .col(text("id").primary_key())
        .col(text("symbol"))
        .col(text("invoice"))
        .col(timestamp_with_time_zone("read_at"))
        .col(text("state"))
        .col(text("provider"))
        .col(text_null("rate"))
        .col(timestamp_with_time_zone_null("as_of"))
        .col(text_null("flaw"))
        .to_owned()
}

fn quotes() -> TableCreateStatement {
    Table::create()
        .table("quotes")
        .col(text("id"))
        .col(text("platform_id"))
        .col(text("request_row"))
        .col(text("settlement_units"))
        .col(text("units"))
        .col(text("rate"))
        .col(text("rate_provider"))
        .col(timestamp_with_time_zone("quoted_at"))
        .col(timestamp_with_time_zone("ends_at"))
        .col(text("client_row").default(""))
        .primary_key(&mut key("quotes_pkey", "platform_id, id"))
        .to_owned()
}
