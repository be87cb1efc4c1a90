//! People who sign in: wallets and e-mail accounts with their platforms, the permissions to open one, challenges that
//! wallets sign, sessions, and devices that are known.

use crate::tables::Creation;
use sea_orm_migration::{prelude::*, schema::*};

pub(crate) const MIGRATION: Creation = Creation {
    path: module_path!(),
    tables: &[accounts, wallets, invites, wallet_challenges, sessions, known_devices],
    indexes: &INDEXES,
};

const INDEXES: [&str; 14] = [
    r#"CREATE UNIQUE INDEX "accounts_platform_key" ON "accounts" ("platform_id")"#,
    r#"CREATE UNIQUE INDEX "accounts_email_key" ON "accounts" ("email")"#,
    r#"CREATE UNIQUE INDEX "accounts_email_hash_key" ON "accounts" ("email_hash")"#,
    r#"CREATE UNIQUE INDEX "wallets_platform_key" ON "wallets" ("platform_id")"#,
    r#"CREATE UNIQUE INDEX "invites_code_key" ON "invites" ("code_hash")"#,
    r#"CREATE INDEX "invites_wallet_idx" ON "invites" ("wallet")"#,
    r#"CREATE INDEX "invites_expires_idx" ON "invites" ("expires_at")"#,
    r#"CREATE INDEX "wallet_challenges_expires_idx" ON "wallet_challenges" ("expires_at")"#,
    r#"CREATE UNIQUE INDEX "sessions_token_key" ON "sessions" ("token_hash")"#,
    r#"CREATE INDEX "sessions_expires_idx" ON "sessions" ("expires_at")"#,
    r#"CREATE INDEX "sessions_account_idx" ON "sessions" ("platform_id", "account_id")"#,
    r#"CREATE INDEX "sessions_wallet_idx" ON "sessions" ("platform_id", "wallet")"#,
    r#"CREATE INDEX "known_devices_account_idx" ON "known_devices" ("account_id", "last_used_at")"#,
    r#"CREATE INDEX "known_devices_used_idx" ON "known_devices" ("last_used_at")"#,
];

fn accounts() -> TableCreateStatement {
    Table::create()
        .table("accounts")
        .col(text("id").primary_key())
        .col(text("platform_id"))
        .col(text("email"))
        .col(text("password_hash"))
        .col(timestamp_with_time_zone("created_at"))
        .col(text_null("email_hash"))
        .to_owned()
}

fn wallets() -> TableCreateStatement {
    Table::create()
        .table("wallets")
        .col(text("address").primary_key())
        .col(text("platform_id"))
        .col(timestamp_with_time_zone("created_at"))
        .to_owned()
}

fn invites() -> TableCreateStatement {
    Table::create()
        .table("invites")
        .col(text("id").primary_key())
        .col(text_null("code_hash"))
        .col(text_null("email_hash"))
        .col(text_null("wallet"))
        .col(timestamp_with_time_zone("created_at"))
        .col(timestamp_with_time_zone("expires_at"))
        .col(timestamp_with_time_zone_null("used_at"))
        .col(text_null("platform_id"))
        .to_owned()
}

fn wallet_challenges() -> TableCreateStatement {
    Table::create()
        .table("wallet_challenges")
        .col(text("id").primary_key())
        .col(text("address"))
        .col(text("nonce"))
        .col(text("message"))
        .col(timestamp_with_time_zone("created_at"))
        .col(timestamp_with_time_zone("expires_at"))
        .col(timestamp_with_time_zone_null("used_at"))
        .col(integer("checks").default(0))
        .to_owned()
}

fn sessions() -> TableCreateStatement {
    Table::create()
        .table("sessions")
        .col(text("id").primary_key())
        .col(text("token_hash"))
        .col(text("platform_id"))
        .col(text_null("wallet"))
        .col(text_null("account_id"))
        .col(timestamp_with_time_zone("created_at"))
        .col(timestamp_with_time_zone("last_used_at"))
        .col(timestamp_with_time_zone("expires_at"))
        .to_owned()
}

fn known_devices() -> TableCreateStatement {
    Table::create()
        .table("known_devices")
        .col(text("hash").primary_key())
        .col(text("account_id"))
        .col(timestamp_with_time_zone("last_used_at"))
        .to_owned()
}
