//! Payee destinations, and the data that wallets sign about them.

use crate::tables::{create, drop_tables};
use sea_orm_migration::{prelude::*, schema::*};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

/// They are dropped from the last to the first.
const TABLES: [&str; 2] = ["payee_destinations", "destination_nonces"];

const INDEXES: [&str; 4] = [
    r#"CREATE UNIQUE INDEX "payee_destinations_key" ON "payee_destinations"
        ("platform_id", "wallet", "network", "token")"#,
    // A wallet has at most one destination in use, whoever asks at the same time.
    r#"CREATE UNIQUE INDEX "payee_destinations_active_key" ON "payee_destinations" ("platform_id", "wallet")
        WHERE is_active"#,
    r#"CREATE INDEX "payee_destinations_wallet_idx" ON "payee_destinations" ("wallet")"#,
    r#"CREATE INDEX "destination_nonces_expires_idx" ON "destination_nonces" ("expires_at")"#,
];

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        create(manager, [payee_destinations(), destination_nonces()], &INDEXES).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop_tables(manager, &TABLES).await
    }
}

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
