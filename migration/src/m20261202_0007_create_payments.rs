//! Settled payments, and what they are found and counted by. Source: ADR-0020.

use crate::tables::{Creation, key};
use sea_orm_migration::{prelude::*, schema::*};

pub(crate) const MIGRATION: Creation = Creation {
    path: module_path!(),
    tables: &[payments, payment_parties, payment_groups, payment_wallets],
    indexes: &INDEXES,
};

/// Every index costs write rate, so each of them serves a search of its own. Those with a time end in the order of a
/// page, read backwards.
const INDEXES: [&str; 10] = [
    // The log index changes when a reorganisation includes a transaction again, the position does not. Beginning with the
    // transaction, it serves the search for one too.
    r#"CREATE UNIQUE INDEX "payments_event_key" ON "payments" ("tx_hash", "network", "position")"#,
    r#"CREATE INDEX "payments_by_reference" ON "payments" ("platform_id", "reference")"#,
    r#"CREATE INDEX "payments_by_request" ON "payments" ("platform_id", "request_id")"#,
    r#"CREATE INDEX "payments_by_merchant_reference" ON "payments"
        ("platform_id", "merchant_reference", "group_key", "paid_at", "id")
        WHERE "merchant_reference" IS NOT NULL"#,
    r#"CREATE INDEX "payments_by_client_reference" ON "payments"
        ("platform_id", "merchant_reference", "client_group_key", "paid_at", "id")
        WHERE "merchant_reference" IS NOT NULL AND "client_group_key" IS NOT NULL"#,
    r#"CREATE INDEX "payments_by_group" ON "payments" ("platform_id", "group_key", "paid_at", "id")"#,
    r#"CREATE INDEX "payments_by_client_group" ON "payments" ("platform_id", "client_group_key", "paid_at", "id")
        WHERE "client_group_key" IS NOT NULL"#,
    r#"CREATE INDEX "payments_by_schedule" ON "payments" ("platform_id", "schedule_id")
        WHERE "schedule_id" IS NOT NULL"#,
    // For what a reorganisation may have dropped, and for the comparison with the chain.
    r#"CREATE INDEX "payments_by_block" ON "payments" ("network", "block_number")"#,
    r#"CREATE INDEX "payments_by_unknown_access" ON "payments" ("paid_at") WHERE "payer_access" = ('unknown')"#,
];

fn payments() -> TableCreateStatement {
    Table::create()
        .table("payments")
        .col(text("id"))
        .col(text("platform_id"))
        .col(text_null("client_row"))
        .col(text("request_row"))
        .col(text("request_id"))
        .col(text("network"))
        .col(blob("tx_hash"))
        .col(integer("position"))
        .col(big_integer("block_number"))
        .col(blob("block_hash"))
        .col(big_integer("log_index"))
        .col(blob("proxy"))
        .col(blob_null("token"))
        .col(blob("payee"))
        .col(blob_null("payer"))
        .col(blob_null("payer_eoa"))
        .col(text("units"))
        .col(text("event_units"))
        .col(text("fee_units"))
        .col(blob_null("fee_address"))
        .col(text("credited"))
        .col(text_null("fee_shortfall"))
        .col(text("kind"))
        .col(text("invoice_currency"))
        .col(text("payment_currency"))
        .col(text_null("merchant_reference"))
        .col(blob("reference"))
        .col(timestamp_with_time_zone("paid_at"))
        .col(timestamp_with_time_zone("created_at"))
        .col(timestamp_with_time_zone_null("reversed_at"))
        .col(text_null("reversal_reason"))
        .col(boolean("is_told").default(false))
        .col(text_null("schedule_id"))
        .col(text_null("rate"))
        .col(text_null("rate_provider"))
        .col(text_null("further_fees"))
        .col(boolean("is_quoted").default(false))
        .col(big_integer("group_key"))
        .col(big_integer_null("client_group_key"))
        .col(boolean("is_hidden").default(false))
        .col(text_null("payer_access"))
        .primary_key(&mut key("payments_pkey", "platform_id, id"))
        .foreign_key(
            ForeignKey::create()
                .name("payments_request_fkey")
                .from("payments", ("platform_id", "request_row"))
                .to("requests", ("platform_id", "id")),
        )
        .to_owned()
}

/// Wallets of payments. Read backwards, the key serves the newest payments of a wallet in a group first.
fn payment_parties() -> TableCreateStatement {
    Table::create()
        .table("payment_parties")
        .col(text("platform_id"))
        .col(blob("wallet"))
        .col(big_integer("group_key"))
        .col(boolean("is_payee"))
        .col(timestamp_with_time_zone("paid_at"))
        .col(text("payment_id"))
        .primary_key(&mut key(
            "payment_parties_pkey",
            "platform_id, wallet, group_key, is_payee, paid_at, payment_id",
        ))
        .to_owned()
}

/// How many payments of one kind and one pair of currencies a platform has, and each of its client IDs.
fn payment_groups() -> TableCreateStatement {
    Table::create()
        .table("payment_groups")
        .col(text("platform_id"))
        .col(text("client_row"))
        .col(text("kind"))
        .col(text("invoice_currency"))
        .col(text("payment_currency"))
        .col(boolean("is_hidden").default(false))
        .col(big_integer("group_key"))
        .col(big_integer("payments"))
        .primary_key(&mut key(
            "payment_groups_pkey",
            "platform_id, client_row, kind, invoice_currency, payment_currency, is_hidden",
        ))
        .to_owned()
}

/// In which groups a wallet takes part, and how often.
fn payment_wallets() -> TableCreateStatement {
    Table::create()
        .table("payment_wallets")
        .col(text("platform_id"))
        .col(blob("wallet"))
        .col(text("client_row"))
        .col(big_integer("group_key"))
        .col(boolean("is_payee"))
        .col(big_integer("payments"))
        .primary_key(&mut key(
            "payment_wallets_pkey",
            "platform_id, wallet, client_row, group_key, is_payee",
        ))
        .to_owned()
}
