//! When a delivery to an endpoint failed last.

use sea_orm_migration::{prelude::*, schema::*};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let added = Table::alter()
            .table("webhook_endpoints")
            .add_column(timestamp_with_time_zone_null("failed_at"))
            .to_owned();
        manager.alter_table(added).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let removed = Table::alter()
            .table("webhook_endpoints")
            .drop_column("failed_at")
            .to_owned();
        manager.alter_table(removed).await
    }
}
