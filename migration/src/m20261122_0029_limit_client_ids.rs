//! A client ID can be limited to payees, currencies, networks and a largest amount.

use sea_orm_migration::{prelude::*, schema::*};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let limits = json_binary_null("limits");
        let added = Table::alter().table("client_ids").add_column(limits).to_owned();
        manager.alter_table(added).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let removed = Table::alter().table("client_ids").drop_column("limits").to_owned();
        manager.alter_table(removed).await
    }
}
