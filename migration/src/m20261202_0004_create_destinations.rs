//! Payee destinations, and the data that wallets sign about them.

use crate::tables::Creation;
use sea_orm_migration::{prelude::*, schema::*};

pub(crate) const MIGRATION: Creation = Creation {
    path: module_path!(),
    tables: &[payee_destinations, destination_nonces],
    indexes: &INDEXES,
};

const INDEXES: [&str; 4] = [
    r#"CREATE UNIQUE INDEX "payee_destinations_key" ON "payee_destinations"
        ("platform_id", "wallet", "network", "token")"#,
    // A wallet has at most one destination in use, whoever asks at the same time.
    r#"CREATE UNIQUE INDEX "payee_destinations_active_key" ON "payee_destinations" ("platform_id", "wallet")
        WHERE is_active"#,
    r#"CREATE INDEX "payee_destinations_wallet_idx" ON "payee_destinations" ("wallet")"#,
    r#"CREATE INDEX "destination_nonces_expires_idx" ON "destination_nonces" ("expires_at")"#,
];

fn payee_destinations() -> TableCreateStatement {
    Table::create()
        .table("payee_destinations")
        .col(text("id").primary_key())
        .col(text("platform_id"))
        .col(text("wallet"))
        .col(text("network"))
        .col(text("token"))
        .col(text_null("policy_mode"))
        .col(text_null("policy_provider"))
        .col(boolean("hides_until_approved"))
        .col(boolean("hides_payee"))
        .col(boolean("is_claimed"))
        .col(boolean("is_active"))
        .col(timestamp_with_time_zone("created_at"))
        .col(timestamp_with_time_zone("updated_at"))
        .col(boolean("is_set_up").default(false))
        .to_owned()
}

fn destination_nonces() -> TableCreateStatement {
    Table::create()
        .table("destination_nonces")
        .col(text("nonce").primary_key())
        .col(text("platform_id"))
        .col(text("client_row"))
        .col(text("action"))
        .col(text("wallet"))
        .col(text("network"))
        .col(text("token"))
        .col(timestamp_with_time_zone("expires_at"))
        .col(timestamp_with_time_zone_null("used_at"))
        .to_owned()
}
