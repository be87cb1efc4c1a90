//! Quotes of the off-ramp partner that were handed out, with their addresses; to which bank account a request is paid out;
//! and orders by which payments reach bank accounts.

use crate::tables::{Creation, key};
use sea_orm_migration::{prelude::*, schema::*};

pub(crate) const MIGRATION: Creation = Creation {
    path: module_path!(),
    tables: &[off_ramp_quotes, off_ramp_addresses, off_ramp_bindings, off_ramp_orders],
    indexes: &INDEXES,
};

const INDEXES: [&str; 8] = [
    r#"CREATE INDEX "off_ramp_quotes_request" ON "off_ramp_quotes" ("platform_id", "request_row")"#,
    r#"CREATE INDEX "off_ramp_quotes_payer" ON "off_ramp_quotes" ("platform_id", "payer_id")"#,
    r#"CREATE INDEX "off_ramp_quotes_address" ON "off_ramp_quotes" ("network", "deposit_address")"#,
    // The partner calls no two quotes the same.
    r#"CREATE INDEX "off_ramp_quotes_partner_quote_idx" ON "off_ramp_quotes" ("partner_quote")"#,
    r#"CREATE INDEX "off_ramp_bindings_payer" ON "off_ramp_bindings" ("platform_id", "payer_id")"#,
    r#"CREATE UNIQUE INDEX "off_ramp_orders_partner_key" ON "off_ramp_orders" ("partner_order")
        WHERE partner_order IS NOT NULL"#,
    r#"CREATE INDEX "off_ramp_orders_due" ON "off_ramp_orders" ("next_at") WHERE next_at IS NOT NULL"#,
    r#"CREATE INDEX "off_ramp_orders_payer" ON "off_ramp_orders" ("platform_id", "payer_id")"#,
];

fn off_ramp_quotes() -> TableCreateStatement {
    Table::create()
        .table("off_ramp_quotes")
        .col(text("id").primary_key())
        .col(text("platform_id"))
        .col(text("request_row"))
        .col(text("payer_id"))
        .col(text("account_id"))
        .col(text("partner_payer"))
        .col(text("partner_account"))
        .col(text("partner_quote"))
        .col(text("network"))
        .col(text("deposit_address"))
        .col(text("units"))
        .col(text("settlement_units"))
        .col(text_null("rate"))
        .col(text_null("rate_provider"))
        .col(text("fee_units"))
        .col(text("pays_out"))
        .col(text("currency"))
        .col(timestamp_with_time_zone("ends_at"))
        .col(timestamp_with_time_zone("created_at"))
        .index(key("off_ramp_quotes_partner_key", "platform_id, request_row, partner_quote").unique())
        .to_owned()
}

/// One account for each address.
fn off_ramp_addresses() -> TableCreateStatement {
    Table::create()
        .table("off_ramp_addresses")
        .col(text("network"))
        .col(text("deposit_address"))
        .col(text("platform_id"))
        .col(text("payer_id"))
        .col(text("account_id"))
        .primary_key(&mut key("off_ramp_addresses_pkey", "network, deposit_address"))
        .to_owned()
}

/// One for each request: two calls at the same time bind it once.
fn off_ramp_bindings() -> TableCreateStatement {
    Table::create()
        .table("off_ramp_bindings")
        .col(text("platform_id"))
        .col(text("request_row"))
        .col(text("payer_id"))
        .col(text("account_id"))
        .col(timestamp_with_time_zone("created_at"))
        .col(timestamp_with_time_zone_null("closed_at"))
        .col(integer_null("closed_payments"))
        .col(text_null("closed_note"))
        .primary_key(&mut key("off_ramp_bindings_pkey", "platform_id, request_row"))
        .to_owned()
}

/// One for each request: the key is that of the request.
fn off_ramp_orders() -> TableCreateStatement {
    Table::create()
        .table("off_ramp_orders")
        .col(text("id"))
        .col(text("platform_id"))
        .col(text("request_row"))
        .col(text("quote_id"))
        .col(text("payer_id"))
        .col(text("account_id"))
        .col(text_null("partner_order"))
        .col(text("state"))
        .col(big_integer("version").default(0))
        .col(text_null("word"))
        .col(integer("failures").default(0))
        .col(timestamp_with_time_zone_null("next_at"))
        .col(timestamp_with_time_zone("changed_at"))
        .col(timestamp_with_time_zone("created_at"))
        .col(text_null("asked_units"))
        .col(text_null("asked_transactions"))
        .col(integer_null("asked_payments"))
        .primary_key(&mut key("off_ramp_orders_pkey", "platform_id, request_row"))
        .to_owned()
}
