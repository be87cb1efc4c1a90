//! What was seen on each chain, how far it has been read and by whom, and what is odd.

use crate::tables::{Creation, key};
use sea_orm_migration::{prelude::*, schema::*};

pub(crate) const MIGRATION: Creation = Creation {
    path: module_path!(),
    tables: &[
        chain_cursors,
        chain_blocks,
        chain_leaders,
        chain_backlogs,
        observations,
        chain_quarantine,
    ],
    indexes: &INDEXES,
};

const INDEXES: [&str; 7] = [
    // It makes the term a part of a key: a commit that shares the key waits for a change of the term and for nothing
    // else, so a renewal of the lease waits for no commit.
    r#"CREATE UNIQUE INDEX "chain_leaders_term_key" ON "chain_leaders" ("network", "term")"#,
    r#"CREATE INDEX "observations_block_idx" ON "observations" ("network", "block_number")"#,
    r#"CREATE INDEX "observations_topic_idx" ON "observations" ("network", "reference_topic")"#,
    r#"CREATE UNIQUE INDEX "chain_quarantine_key" ON "chain_quarantine"
        ("network", "block_number", "reason", "place")"#,
    r#"CREATE INDEX "chain_quarantine_tx_idx" ON "chain_quarantine" ("network", "tx_hash")"#,
    r#"CREATE INDEX "chain_quarantine_state_idx" ON "chain_quarantine" ("state", "settled_at")"#,
    r#"CREATE INDEX "chain_quarantine_request_idx" ON "chain_quarantine" ("platform_id", "request_row")"#,
];

fn chain_cursors() -> TableCreateStatement {
    Table::create()
        .table("chain_cursors")
        .col(text("network").primary_key())
        .col(big_integer("seen_number"))
        .col(text("seen_hash"))
        .col(big_integer("final_number"))
        .col(text("final_hash"))
        .col(text_null("halted_reason"))
        .col(timestamp_with_time_zone("updated_at"))
        .col(text_null("finality"))
        .col(boolean("may_rewind").default(false))
        .to_owned()
}

fn chain_blocks() -> TableCreateStatement {
    Table::create()
        .table("chain_blocks")
        .col(text("network"))
        .col(big_integer("number"))
        .col(text("hash"))
        .col(text("parent_hash"))
        .col(big_integer("time_s"))
        .primary_key(&mut key("chain_blocks_pkey", "network, number"))
        .to_owned()
}

fn chain_leaders() -> TableCreateStatement {
    Table::create()
        .table("chain_leaders")
        .col(text("network").primary_key())
        .col(big_integer("term"))
        .col(text_null("holder"))
        .col(timestamp_with_time_zone("lease_until"))
        .to_owned()
}

/// Ranges that are filled in beside new blocks.
fn chain_backlogs() -> TableCreateStatement {
    Table::create()
        .table("chain_backlogs")
        .col(text("network"))
        .col(big_integer("next_block"))
        .col(big_integer("end_block"))
        .col(text("reason"))
        .col(integer("failures"))
        .col(timestamp_with_time_zone("due_at"))
        .col(timestamp_with_time_zone("created_at"))
        .primary_key(&mut key("chain_backlogs_pkey", "network, end_block, reason"))
        .to_owned()
}

/// Payments that were seen and are not final: only those of known requests.
fn observations() -> TableCreateStatement {
    Table::create()
        .table("observations")
        .col(text("network"))
        .col(text("tx_hash"))
        .col(integer("position"))
        .col(big_integer("block_number"))
        .col(text("block_hash"))
        .col(big_integer("log_index"))
        .col(text("proxy"))
        .col(text("reference_topic"))
        .col(text_null("token"))
        .col(text("payee"))
        .col(text("units"))
        .col(text("fee_units"))
        .col(text_null("fee_address"))
        .col(text_null("invoice_units"))
        .col(text_null("invoice_fee_units"))
        .col(text_null("conversion_currency"))
        .col(text_null("max_rate_timespan_s"))
        .col(timestamp_with_time_zone("seen_at"))
        .primary_key(&mut key("observations_pkey", "network, tx_hash, position"))
        .to_owned()
}

fn chain_quarantine() -> TableCreateStatement {
    Table::create()
        .table("chain_quarantine")
        .col(text("id").primary_key())
        .col(text("network"))
        .col(big_integer("block_number"))
        .col(text_null("tx_hash"))
        .col(integer_null("position"))
        .col(text("place"))
        .col(text("reason"))
        .col(text("detail"))
        .col(text_null("platform_id"))
        .col(text_null("request_row"))
        .col(text("state"))
        .col(integer("attempts"))
        .col(timestamp_with_time_zone("first_seen"))
        .col(timestamp_with_time_zone("last_seen"))
        .col(timestamp_with_time_zone_null("settled_at"))
        .col(text_null("note"))
        .col(text_null("units"))
        .col(text_null("settlement_units"))
        .to_owned()
}
