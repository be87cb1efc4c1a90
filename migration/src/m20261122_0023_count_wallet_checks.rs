//! A challenge counts how often a contract wallet was asked about it.

use sea_orm_migration::{prelude::*, schema::*};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let checks = integer("checks").default(0).to_owned();
        let added = Table::alter().table("wallet_challenges").add_column(checks).to_owned();
        manager.alter_table(added).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let removed = Table::alter()
            .table("wallet_challenges")
            .drop_column("checks")
            .to_owned();
        manager.alter_table(removed).await
    }
}
