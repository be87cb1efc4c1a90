//! Which payments settled a quote: nothing of what was asked for may be missing of them.

use sea_orm_migration::{prelude::*, schema::*};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        // Payments of before keep what they completed.
        let added = Table::alter()
            .table("payments")
            .add_column(boolean("is_quoted").default(false))
            .to_owned();
        manager.alter_table(added).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let removed = Table::alter().table("payments").drop_column("is_quoted").to_owned();
        manager.alter_table(removed).await
    }
}
