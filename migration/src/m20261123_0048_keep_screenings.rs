//! What providers found about the wallets of secure payments, and how often they were asked.

use sea_orm_migration::{prelude::*, schema::*};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.create_table(screenings()).await?;
        manager.create_table(screening_questions()).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        crate::tables::drop_tables(manager, &["screenings", "screening_questions"]).await
    }
}

/// Both tables are read and written by the payment and its wallet alone.
fn keyed(table: &'static str, key: &'static str) -> TableCreateStatement {
    Table::create()
        .table(table)
        .col(text("platform_id"))
        .col(text("secure_payment_id"))
        .col(text("wallet"))
        .primary_key(
            Index::create()
                .name(key)
                .col("platform_id")
                .col("secure_payment_id")
                .col("wallet"),
        )
        .to_owned()
}

fn screenings() -> TableCreateStatement {
    keyed("screenings", "screenings_pkey")
        .col(text("wallet_kind"))
        .col(text_null("parent_wallet"))
        .col(text("status"))
        .col(text("provider"))
        .col(text("raw_status"))
        .col(timestamp_with_time_zone("evaluated_at"))
        .to_owned()
}

fn screening_questions() -> TableCreateStatement {
    keyed("screening_questions", "screening_questions_pkey")
        .col(timestamp_with_time_zone("asked_at"))
        .col(integer("failures"))
        .col(boolean("is_open"))
        .to_owned()
}
