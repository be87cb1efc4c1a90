//! Payers with their bank accounts, and the keys under which all that names them is sealed.

use crate::tables::{Creation, key};
use sea_orm_migration::{prelude::*, schema::*};

pub(crate) const MIGRATION: Creation = Creation {
    path: module_path!(),
    tables: &[payers, payer_keys, payer_registrations, bank_accounts],
    indexes: &INDEXES,
};

const INDEXES: [&str; 9] = [
    r#"CREATE UNIQUE INDEX "payers_client_user_key" ON "payers" ("platform_id", "client_user_hash")"#,
    r#"CREATE UNIQUE INDEX "payers_partner_key" ON "payers" ("partner_hash")"#,
    r#"CREATE INDEX "payers_ask_idx" ON "payers" ("ask_at")"#,
    r#"CREATE INDEX "payer_registrations_ask_idx" ON "payer_registrations" ("ask_at")"#,
    r#"CREATE UNIQUE INDEX "bank_accounts_detail_key" ON "bank_accounts" ("payment_detail_id")"#,
    r#"CREATE UNIQUE INDEX "bank_accounts_partner_key" ON "bank_accounts" ("partner_hash")"#,
    r#"CREATE UNIQUE INDEX "bank_accounts_content_key" ON "bank_accounts" ("content_hash")"#,
    r#"CREATE INDEX "bank_accounts_payer_idx" ON "bank_accounts" ("payer_id", "id")"#,
    r#"CREATE INDEX "bank_accounts_ask_idx" ON "bank_accounts" ("ask_at")"#,
];

fn payers() -> TableCreateStatement {
    Table::create()
        .table("payers")
        .col(text("id").primary_key())
        .col(text("platform_id"))
        .col(text("user_id"))
        .col(text_null("client_user_hash"))
        .col(text_null("partner_hash"))
        .col(text_null("details"))
        .col(text("kyc"))
        .col(text("agreement"))
        .col(big_integer("version"))
        .col(big_integer("partner_version"))
        .col(timestamp_with_time_zone("created_at"))
        .col(timestamp_with_time_zone("changed_at"))
        .col(timestamp_with_time_zone_null("ask_at"))
        .col(timestamp_with_time_zone_null("erasing_at"))
        .col(timestamp_with_time_zone_null("erased_at"))
        .col(timestamp_with_time_zone_null("in_flight_until"))
        .col(timestamp_with_time_zone_null("erasure_wanted_at"))
        .to_owned()
}

/// They stand apart from the payers, so that what a rotation rewrites is small and erasure removes a row.
fn payer_keys() -> TableCreateStatement {
    Table::create()
        .table("payer_keys")
        .col(text("payer_id").primary_key())
        .col(text("platform_id"))
        .col(text("data_key"))
        .to_owned()
}

/// First registrations that the partner may have stored. The service notes each before it asks the partner, so that it can
/// have a payer erased whose registration got no response.
fn payer_registrations() -> TableCreateStatement {
    Table::create()
        .table("payer_registrations")
        .col(text("partner_key"))
        .col(text("platform_id"))
        .col(timestamp_with_time_zone("in_flight_until"))
        .col(timestamp_with_time_zone_null("erasing_at"))
        .col(timestamp_with_time_zone_null("ask_at"))
        .primary_key(&mut key("payer_registrations_pkey", "partner_key"))
        .to_owned()
}

fn bank_accounts() -> TableCreateStatement {
    Table::create()
        .table("bank_accounts")
        .col(text("id").primary_key())
        .col(text("platform_id"))
        .col(text("payer_id"))
        .col(text("payment_detail_id"))
        .col(text_null("partner_hash"))
        .col(text_null("content_hash"))
        .col(text_null("details"))
        .col(text("status"))
        .col(text_null("told"))
        .col(big_integer("version"))
        .col(big_integer("partner_version"))
        .col(timestamp_with_time_zone("created_at"))
        .col(timestamp_with_time_zone("changed_at"))
        .col(timestamp_with_time_zone_null("ask_at"))
        .to_owned()
}
