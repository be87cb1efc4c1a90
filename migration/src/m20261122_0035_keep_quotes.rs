//! Quotes that were handed out, which requests are paid by them, and the rate at which a payment counted.

use sea_orm_migration::{prelude::*, schema::*};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.create_table(quotes()).await?;
        let by_request = Index::create()
            .name("quotes_request")
            .table("quotes")
            .col("platform_id")
            .col("request_row")
            .to_owned();
        let by_end = Index::create()
            .name("quotes_ends_at")
            .table("quotes")
            .col("ends_at")
            .to_owned();
        for index in [by_request, by_end] {
            manager.create_index(index).await?;
        }
        for (table, column) in added() {
            let change = Table::alter().table(table).add_column(column).to_owned();
            manager.alter_table(change).await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for (table, column) in added().into_iter().rev() {
            let change = Table::alter()
                .table(table)
                .drop_column(column.get_column_name().to_owned())
                .to_owned();
            manager.alter_table(change).await?;
        }
        crate::tables::drop_tables(manager, &["quotes"]).await
    }
}

fn added() -> [(&'static str, ColumnDef); 4] {
    [
        ("requests", boolean("is_quoted").default(false).to_owned()),
        ("requests", text("tolerated").default("0").to_owned()),
        ("payments", text_null("rate")),
        ("payments", text_null("rate_provider")),
    ]
}

fn quotes() -> TableCreateStatement {
    Table::create()
        .table("quotes")
        .col(text("id").primary_key())
        .col(text("platform_id"))
        .col(text("request_row"))
        .col(text("settlement_units"))
        .col(text("units"))
        .col(text("rate"))
        .col(text("rate_provider"))
        .col(timestamp_with_time_zone("quoted_at"))
        .col(timestamp_with_time_zone("ends_at"))
        .to_owned()
}
