//! What was handed out for a request, so that its payments can be compared with it, and what a payment was short of it.

use sea_orm_migration::{prelude::*, schema::*};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.create_table(handed_out()).await?;
        let shortfall = Table::alter()
            .table("payments")
            .add_column(text_null("fee_shortfall"))
            .to_owned();
        manager.alter_table(shortfall).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let shortfall = Table::alter().table("payments").drop_column("fee_shortfall").to_owned();
        manager.alter_table(shortfall).await?;
        crate::tables::drop_tables(manager, &["handed_out"]).await
    }
}

fn handed_out() -> TableCreateStatement {
    Table::create()
        .table("handed_out")
        .col(text("platform_id"))
        .col(text("request_row"))
        .col(text("content_hash"))
        .col(integer_null("fee_basis_points"))
        .col(text_null("fee_address"))
        .col(text_null("path"))
        .col(big_integer_null("max_rate_age_s"))
        .col(timestamp_with_time_zone("handed_out_at"))
        .primary_key(
            Index::create()
                .name("handed_out_pkey")
                .col("platform_id")
                .col("request_row")
                .col("content_hash"),
        )
        .to_owned()
}
