//! People who sign in: wallets and e-mail accounts with their platforms, challenges that wallets sign, and sessions.

use sea_orm_migration::{prelude::*, schema::*};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const TABLES: [&str; 4] = ["wallets", "accounts", "wallet_challenges", "sessions"];

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let wallets = Table::create()
            .table("wallets")
            .col(text("address").primary_key())
            .col(text("platform_id"))
            .col(timestamp_with_time_zone("created_at"))
            .to_owned();
        let accounts = Table::create()
            .table("accounts")
            .col(text("id").primary_key())
            .col(text("platform_id"))
            .col(text("email"))
            .col(text("password_hash"))
            .col(timestamp_with_time_zone("created_at"))
            .to_owned();
        let challenges = Table::create()
            .table("wallet_challenges")
            .col(text("id").primary_key())
            .col(text("address"))
            .col(text("nonce"))
            .col(text("message"))
            .col(timestamp_with_time_zone("created_at"))
            .col(timestamp_with_time_zone("expires_at"))
            .col(timestamp_with_time_zone_null("used_at"))
            .to_owned();
        let sessions = Table::create()
            .table("sessions")
            .col(text("id").primary_key())
            .col(text("token_hash"))
            .col(text("platform_id"))
            .col(text_null("wallet"))
            .col(text_null("account_id"))
            .col(timestamp_with_time_zone("created_at"))
            .col(timestamp_with_time_zone("last_used_at"))
            .col(timestamp_with_time_zone("expires_at"))
            .to_owned();
        for table in [wallets, accounts, challenges, sessions] {
            manager.create_table(table).await?;
        }
        for (name, table, column) in [
            ("wallets_platform_key", "wallets", "platform_id"),
            ("accounts_platform_key", "accounts", "platform_id"),
            ("accounts_email_key", "accounts", "email"),
            ("sessions_token_key", "sessions", "token_hash"),
        ] {
            let index = Index::create().name(name).table(table).col(column).unique().to_owned();
            manager.create_index(index).await?;
        }
        for (name, table) in [
            ("wallet_challenges_expires_idx", "wallet_challenges"),
            ("sessions_expires_idx", "sessions"),
        ] {
            let index = Index::create().name(name).table(table).col("expires_at").to_owned();
            manager.create_index(index).await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        crate::tables::drop_tables(manager, &TABLES).await
    }
}
