//! Permissions of the operator to open one account.

use sea_orm_migration::{prelude::*, schema::*};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let invites = Table::create()
            .table("invites")
            .col(text("id").primary_key())
            .col(text_null("code_hash"))
            .col(text_null("email_hash"))
            .col(text_null("wallet"))
            .col(timestamp_with_time_zone("created_at"))
            .col(timestamp_with_time_zone("expires_at"))
            .col(timestamp_with_time_zone_null("used_at"))
            .col(text_null("platform_id"))
            .to_owned();
        manager.create_table(invites).await?;
        let code = Index::create()
            .name("invites_code_key")
            .table("invites")
            .col("code_hash")
            .unique()
            .to_owned();
        manager.create_index(code).await?;
        for (name, column) in [("invites_wallet_idx", "wallet"), ("invites_expires_idx", "expires_at")] {
            let index = Index::create().name(name).table("invites").col(column).to_owned();
            manager.create_index(index).await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        crate::tables::drop_tables(manager, &["invites"]).await
    }
}
