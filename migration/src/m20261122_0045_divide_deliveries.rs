//! Deliveries by month on PostgreSQL. That an event has one for each endpoint is no index there any more: its id would have
//! to hold the month. Source: ADR-0019.

use sea_orm_migration::{prelude::*, sea_orm::DbBackend};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const TABLE: &str = "deliveries";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        if manager.get_database_backend() != DbBackend::Postgres {
            return Ok(());
        }
        let run = async |sql: &str| manager.get_connection().execute_unprepared(sql).await;
        run("CREATE INDEX deliveries_event_idx ON deliveries (event_id, endpoint_id)").await?;
        run("DROP INDEX deliveries_event_endpoint_key").await?;
        crate::months::divide(manager, TABLE).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        if manager.get_database_backend() != DbBackend::Postgres {
            return Ok(());
        }
        crate::months::unite(manager, TABLE).await?;
        let run = async |sql: &str| manager.get_connection().execute_unprepared(sql).await;
        run("CREATE UNIQUE INDEX deliveries_event_endpoint_key ON deliveries (event_id, endpoint_id)").await?;
        run("DROP INDEX deliveries_event_idx").await?;
        Ok(())
    }
}
