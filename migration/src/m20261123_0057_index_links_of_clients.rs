//! Links of a public client ID that can be paid are counted by an index that names all of what is counted: without the
//! platform in it, each row was read.

use sea_orm_migration::prelude::*;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const TABLE: &str = "secure_payments";
const NAME: &str = "secure_payments_client_idx";
const BEFORE: [&str; 3] = ["client_row", "status", "expires_at"];
const COUNTED: [&str; 4] = ["platform_id", "client_row", "status", "expires_at"];

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        replace(manager, &COUNTED).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        replace(manager, &BEFORE).await
    }
}

async fn replace(manager: &SchemaManager<'_>, columns: &[&'static str]) -> Result<(), DbErr> {
    manager
        .drop_index(Index::drop().name(NAME).table(TABLE).to_owned())
        .await?;
    let mut index = Index::create().name(NAME).table(TABLE).to_owned();
    for column in columns {
        index.col(*column);
    }
    manager.create_index(index).await
}
