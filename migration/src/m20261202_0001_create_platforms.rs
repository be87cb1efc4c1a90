//! Tenants and orchestrators, their credentials, their tiers of rate limits, and the answers kept for idempotency keys.

use crate::tables::{Creation, key};
use sea_orm_migration::{prelude::*, schema::*};

pub(crate) const MIGRATION: Creation = Creation {
    path: module_path!(),
    tables: &[platforms, orchestrators, keys, client_ids, rate_tiers, idempotency_keys],
    indexes: &INDEXES,
};

const INDEXES: [&str; 5] = [
    r#"CREATE UNIQUE INDEX "keys_hash_key" ON "keys" ("hash")"#,
    r#"CREATE INDEX "keys_owner_idx" ON "keys" ("owner_id")"#,
    r#"CREATE UNIQUE INDEX "client_ids_client_id_key" ON "client_ids" ("client_id")"#,
    r#"CREATE INDEX "client_ids_platform_idx" ON "client_ids" ("platform_id")"#,
    r#"CREATE INDEX "idempotency_keys_created_idx" ON "idempotency_keys" ("created_at")"#,
];

fn platforms() -> TableCreateStatement {
    Table::create()
        .table("platforms")
        .col(text("id").primary_key())
        .col(text("name"))
        .col(timestamp_with_time_zone("created_at"))
        .to_owned()
}

fn orchestrators() -> TableCreateStatement {
    Table::create()
        .table("orchestrators")
        .col(text("id").primary_key())
        .col(text("name"))
        .col(timestamp_with_time_zone("created_at"))
        .to_owned()
}

fn keys() -> TableCreateStatement {
    Table::create()
        .table("keys")
        .col(text("id").primary_key())
        .col(text("owner_kind"))
        .col(text("owner_id"))
        .col(text("hash"))
        .col(text("hint"))
        .col(text_null("label"))
        .col(timestamp_with_time_zone("created_at"))
        .col(timestamp_with_time_zone_null("revoked_at"))
        .col(timestamp_with_time_zone_null("last_used_at"))
        .to_owned()
}

fn client_ids() -> TableCreateStatement {
    Table::create()
        .table("client_ids")
        .col(text("id").primary_key())
        .col(text("platform_id"))
        .col(text("client_id"))
        .col(text("label"))
        .col(json_binary("allowed_domains"))
        .col(text("status"))
        .col(text_null("fee_percentage"))
        .col(text_null("fee_address"))
        .col(text_null("operator_wallet"))
        .col(big_integer_null("default_pre_approval_expiry_s"))
        .col(big_integer_null("default_authorization_expiry_s"))
        .col(timestamp_with_time_zone("created_at"))
        .col(timestamp_with_time_zone("updated_at"))
        .col(timestamp_with_time_zone_null("last_used_at"))
        .col(text_null("payee_destination_id"))
        .col(json_binary_null("limits"))
        .to_owned()
}

fn rate_tiers() -> TableCreateStatement {
    Table::create()
        .table("rate_tiers")
        .col(text("subject").primary_key())
        .col(text("tier"))
        .to_owned()
}

fn idempotency_keys() -> TableCreateStatement {
    Table::create()
        .table("idempotency_keys")
        .col(text("owner_id"))
        .col(text("scope"))
        .col(text("key"))
        .col(text("body_hash"))
        .col(text_null("response"))
        .col(timestamp_with_time_zone("created_at"))
        .primary_key(&mut key("idempotency_keys_pkey", "owner_id, scope, key"))
        .to_owned()
}
