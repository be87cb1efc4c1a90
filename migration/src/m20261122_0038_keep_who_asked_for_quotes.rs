//! Who asked for a quote, so that nobody uses up the quotes of another one.

use sea_orm_migration::{prelude::*, schema::*};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        // Quotes of before count for whoever acts for the whole platform, until they end.
        let added = Table::alter()
            .table("quotes")
            .add_column(text("client_row").default(""))
            .to_owned();
        manager.alter_table(added).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let removed = Table::alter().table("quotes").drop_column("client_row").to_owned();
        manager.alter_table(removed).await
    }
}
