//! Recurring payments and what executes them.

use crate::tables::{Creation, key};
use sea_orm_migration::{prelude::*, schema::*};

pub(crate) const MIGRATION: Creation = Creation {
    path: module_path!(),
    tables: &[schedules, schedule_executions, relay_transactions, relay_bids],
    indexes: &INDEXES,
};

const INDEXES: [&str; 7] = [
    r#"CREATE INDEX "schedules_wake_idx" ON "schedules" ("network", "wake_at")"#,
    r#"CREATE INDEX "schedules_payer_idx" ON "schedules" ("payer", "token", "contract", "status")"#,
    r#"CREATE INDEX "schedules_live_idx" ON "schedules" ("platform_id", "status", "client_row")"#,
    r#"CREATE INDEX "schedules_status_idx" ON "schedules" ("status", "created_at")"#,
    r#"CREATE INDEX "schedules_next_payment_idx" ON "schedules"
        ("network", "status", "failures", ("first_payment_s" + ("executed" * "period_s")))"#,
    r#"CREATE INDEX "relay_transactions_state_idx" ON "relay_transactions" ("network", "relayer", "state", "nonce")"#,
    r#"CREATE INDEX "relay_transactions_payment_idx" ON "relay_transactions" ("schedule_id", "number")"#,
];

fn schedules() -> TableCreateStatement {
    Table::create()
        .table("schedules")
        .col(text("id"))
        .col(text("platform_id"))
        .col(text_null("client_row"))
        .col(text_null("client_id"))
        .col(text_null("origin"))
        .col(text("network"))
        .col(text("contract"))
        .col(text("payer"))
        .col(text("token"))
        .col(text("payee"))
        .col(text_null("fee_address"))
        .col(text("amount"))
        .col(text("fee"))
        .col(text("relayer_fee"))
        .col(big_integer("period_s"))
        .col(big_integer("first_payment_s"))
        .col(integer("total_payments"))
        .col(text("nonce"))
        .col(big_integer("deadline_s"))
        .col(text_null("signature"))
        .col(text("status"))
        .col(integer("executed"))
        .col(integer("failures"))
        .col(text_null("failure_reason"))
        .col(timestamp_with_time_zone_null("wake_at"))
        .col(timestamp_with_time_zone_null("last_paid_at"))
        .col(big_integer("version"))
        .col(timestamp_with_time_zone("created_at"))
        .col(text("asked_amount").default(""))
        .col(text("asked_currency").default(""))
        .primary_key(&mut key("schedules_pkey", "platform_id, id"))
        .to_owned()
}

fn schedule_executions() -> TableCreateStatement {
    Table::create()
        .table("schedule_executions")
        .col(text("schedule_id"))
        .col(integer("number"))
        .col(text("platform_id"))
        .col(text("request_row"))
        .col(text("request_id"))
        .col(integer("failures"))
        .col(timestamp_with_time_zone("created_at"))
        .primary_key(&mut key("schedule_executions_pkey", "platform_id, schedule_id, number"))
        .to_owned()
}

/// What the relayer signed for the payments of schedules.
fn relay_transactions() -> TableCreateStatement {
    Table::create()
        .table("relay_transactions")
        .col(text("network"))
        .col(text("relayer"))
        .col(big_integer("nonce"))
        .col(text("platform_id"))
        .col(text("schedule_id"))
        .col(integer("number"))
        .col(text("to_address"))
        .col(text("calldata"))
        .col(big_integer("gas_limit"))
        .col(text("state"))
        .col(timestamp_with_time_zone("created_at"))
        .primary_key(&mut key("relay_transactions_pkey", "network, relayer, nonce"))
        .to_owned()
}

/// The signed forms of a transaction, each at one price.
fn relay_bids() -> TableCreateStatement {
    Table::create()
        .table("relay_bids")
        .col(text("network"))
        .col(text("relayer"))
        .col(big_integer("nonce"))
        .col(integer("bid"))
        .col(text("max_fee"))
        .col(text("tip"))
        .col(text("tx_hash"))
        .col(text("raw"))
        .col(timestamp_with_time_zone("signed_at"))
        .primary_key(&mut key("relay_bids_pkey", "network, relayer, nonce, bid"))
        .to_owned()
}
