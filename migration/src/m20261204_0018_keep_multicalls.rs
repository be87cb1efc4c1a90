//! Links that pay the requests of other links in one transaction.

use sea_orm_migration::{prelude::*, schema::*};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let child = text_null("child_token");
        let widened = Table::alter()
            .table("secure_payment_items")
            .add_column(child)
            .to_owned();
        manager.alter_table(widened).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let narrowed = Table::alter()
            .table("secure_payment_items")
            .drop_column("child_token")
            .to_owned();
        manager.alter_table(narrowed).await
    }
}
