//! Deliveries by the time of their creation, for summaries: everything that is counted is in the index.

use sea_orm_migration::prelude::*;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const NAME: &str = "deliveries_created_idx";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let mut index = Index::create().name(NAME).table("deliveries").to_owned();
        for column in ["owner_id", "created_at", "endpoint_id", "state"] {
            index.col(column);
        }
        manager.create_index(index).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let index = Index::drop().name(NAME).table("deliveries").to_owned();
        manager.drop_index(index).await
    }
}
