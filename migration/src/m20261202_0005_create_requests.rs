//! Requests, and what was handed out for them beyond their price terms.

use crate::tables::{Creation, key};
use sea_orm_migration::{prelude::*, schema::*};

pub(crate) const MIGRATION: Creation = Creation {
    path: module_path!(),
    tables: &[requests, handed_out],
    indexes: &INDEXES,
};

const INDEXES: [&str; 12] = [
    r#"CREATE UNIQUE INDEX "requests_request_id_key" ON "requests" ("request_id")"#,
    // Eight bytes of reference can collide: two requests that the chain could not tell apart must not both exist.
    r#"CREATE UNIQUE INDEX "requests_reference_key" ON "requests" ("network", "reference", "payee")"#,
    r#"CREATE INDEX "requests_created_idx" ON "requests" ("platform_id", "created_at" DESC, "id" DESC)"#,
    // Read backwards, it is in the order of a page.
    r#"CREATE INDEX "requests_payee_idx" ON "requests" ("platform_id", "payee", "created_at", "id")"#,
    r#"CREATE INDEX "requests_merchant_reference_idx" ON "requests" ("platform_id", "merchant_reference")
        WHERE "merchant_reference" IS NOT NULL"#,
    r#"CREATE INDEX "requests_topic_idx" ON "requests" ("network", "reference_topic")"#,
    // It tells whether anything is awaited on a network.
    r#"CREATE INDEX "requests_open_idx" ON "requests" ("network", "created_at")
        WHERE "status" IN ('pending', 'partially_paid')"#,
    r#"CREATE INDEX "requests_next_period_idx" ON "requests" ("next_period_at") WHERE next_period_at IS NOT NULL"#,
    r#"CREATE UNIQUE INDEX "requests_period_key" ON "requests" ("platform_id", "parent_row", "period")
        WHERE parent_row IS NOT NULL"#,
    // Lists of a public client ID are read off these two.
    r#"CREATE INDEX "requests_shown_idx" ON "requests" ("platform_id", "client_row", "created_at", "id")
        WHERE client_row IS NOT NULL AND NOT is_hidden"#,
    r#"CREATE INDEX "requests_shown_payee_idx" ON "requests"
        ("platform_id", "client_row", "payee", "created_at", "id")
        WHERE client_row IS NOT NULL AND NOT is_hidden"#,
    // Requests that await payment are counted by it. The state is in it because SQLite would read the row for it.
    r#"CREATE INDEX "requests_awaited_idx" ON "requests"
        ("platform_id", "public_client", "link_until", "created_at", "status")
        WHERE status IN ('pending', 'partially_paid')"#,
];

fn requests() -> TableCreateStatement {
    Table::create()
        .table("requests")
        .col(text("id"))
        .col(text("platform_id"))
        .col(text_null("client_row"))
        .col(text_null("client_id"))
        .col(text_null("origin"))
        .col(text("request_id"))
        .col(text("salt"))
        .col(text("reference"))
        .col(text("reference_topic"))
        .col(text("kind"))
        .col(text("status"))
        .col(text("network"))
        .col(text("payee"))
        .col(text_null("payer"))
        .col(text("amount"))
        .col(text("invoice_currency"))
        .col(text("payment_currency"))
        .col(text_null("token"))
        .col(text("expected"))
        .col(text("credited"))
        .col(integer("payment_count"))
        .col(text_null("tx_hash"))
        .col(text_null("merchant_reference"))
        .col(json_binary_null("customer"))
        .col(json_binary_null("recurrence"))
        .col(boolean("is_recurrence_stopped"))
        .col(text_null("original_request_id"))
        .col(text_null("original_request_reference"))
        .col(boolean("is_crypto_to_fiat"))
        .col(boolean("is_listening"))
        .col(timestamp_with_time_zone("created_at"))
        .col(timestamp_with_time_zone("updated_at"))
        .col(timestamp_with_time_zone_null("paid_at"))
        .col(boolean("is_told_paid").default(false))
        .col(integer("reversals").default(0))
        .col(text_null("schedule_id"))
        .col(integer("next_period").default(0))
        .col(timestamp_with_time_zone_null("next_period_at"))
        .col(text_null("parent_row"))
        .col(integer_null("period"))
        .col(boolean("is_quoted").default(false))
        .col(text("tolerated").default("0"))
        .col(boolean("is_ordered").default(false))
        .col(boolean("is_hidden").default(false))
        .col(json_binary_null("price"))
        .col(timestamp_with_time_zone_null("link_until"))
        .col(text("public_client").default(""))
        .primary_key(&mut key("requests_pkey", "platform_id, id"))
        .to_owned()
}

/// Fees that calls of `/pay` added to the price terms of a request.
fn handed_out() -> TableCreateStatement {
    Table::create()
        .table("handed_out")
        .col(text("platform_id"))
        .col(text("request_row"))
        .col(text("content_hash"))
        .col(integer_null("fee_basis_points"))
        .col(text_null("fee_address"))
        .col(timestamp_with_time_zone("handed_out_at"))
        .col(text("client_row").default(""))
        .primary_key(&mut key("handed_out_pkey", "platform_id, request_row, content_hash"))
        .to_owned()
}
