//! Payment pages note that they ask a wallet to pay a link, so that other visitors of the link are warned.

use sea_orm_migration::{prelude::*, schema::*};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const TABLE: &str = "secure_payments";
const COLUMN: &str = "attempts";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let added = Table::alter()
            .table(TABLE)
            .add_column(json_binary_null(COLUMN))
            .to_owned();
        manager.alter_table(added).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let dropped = Table::alter().table(TABLE).drop_column(COLUMN).to_owned();
        manager.alter_table(dropped).await
    }
}
