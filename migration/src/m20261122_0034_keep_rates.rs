//! Readings of the feeds of rates, so that a payment can be told the rate of its time.

use sea_orm_migration::{prelude::*, schema::*};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.create_table(rates()).await?;
        let key = Index::create()
            .name("rates_key")
            .table("rates")
            .col("symbol")
            .col("invoice")
            .col("read_at")
            .unique()
            .to_owned();
        manager.create_index(key).await?;
        let by_age = Index::create()
            .name("rates_read_at")
            .table("rates")
            .col("read_at")
            .to_owned();
        manager.create_index(by_age).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        crate::tables::drop_tables(manager, &["rates"]).await
    }
}

fn rates() -> TableCreateStatement {
    Table::create()
        .table("rates")
        .col(text("id").primary_key())
        .col(text("symbol"))
        .col(text("invoice"))
        .col(timestamp_with_time_zone("read_at"))
        .col(text("state"))
        .col(text("provider"))
        .col(text_null("rate"))
        .col(timestamp_with_time_zone_null("as_of"))
        .col(text_null("flaw"))
        .to_owned()
}
