//! Keys of sealed values, and the keyed hash by which accounts are found. The service itself seals what is clear: a
//! migration has no keys.

use sea_orm_migration::{prelude::*, schema::*};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const HASH_INDEX: &str = "accounts_email_hash_key";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let table = Table::create()
            .table("key_material")
            .col(text("name").primary_key())
            .col(text("sealed"))
            .col(timestamp_with_time_zone("created_at"))
            .to_owned();
        manager.create_table(table).await?;
        let column = Table::alter()
            .table("accounts")
            .add_column(text_null("email_hash"))
            .to_owned();
        manager.alter_table(column).await?;
        let index = Index::create()
            .name(HASH_INDEX)
            .table("accounts")
            .col("email_hash")
            .unique()
            .to_owned();
        manager.create_index(index).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager
            .drop_index(Index::drop().name(HASH_INDEX).table("accounts").to_owned())
            .await?;
        let column = Table::alter().table("accounts").drop_column("email_hash").to_owned();
        manager.alter_table(column).await?;
        crate::tables::drop_tables(manager, &["key_material"]).await
    }
}
