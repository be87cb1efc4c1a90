//! Endpoints that read the headers of one prefix alone.

use sea_orm_migration::{prelude::*, schema::*};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let added = Table::alter()
            .table("webhook_endpoints")
            .add_column(text_null("header_prefix"))
            .to_owned();
        manager.alter_table(added).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let removed = Table::alter()
            .table("webhook_endpoints")
            .drop_column("header_prefix")
            .to_owned();
        manager.alter_table(removed).await
    }
}
