//! A payment that left the chain stays and is marked.

use sea_orm_migration::{prelude::*, schema::*};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let columns = [
            timestamp_with_time_zone_null("reversed_at"),
            text_null("reversal_reason"),
            integer("reversals").default(0).to_owned(),
        ];
        for column in columns {
            let added = Table::alter().table("payments").add_column(column).to_owned();
            manager.alter_table(added).await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for column in ["reversals", "reversal_reason", "reversed_at"] {
            let removed = Table::alter().table("payments").drop_column(column).to_owned();
            manager.alter_table(removed).await?;
        }
        Ok(())
    }
}
