//! Events by month on PostgreSQL. Their deduplication keys are unique over all months, so they get a table of their own,
//! and the index of creation times goes: ids say when they were drawn.

use sea_orm_migration::{prelude::*, schema::*, sea_orm::DbBackend};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const TABLE: &str = "events";
const KEYS: &str = "event_keys";
const UNIQUE: &str = "events_deduplication_key";
const CREATED: &str = "events_created_idx";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let run = async |sql: &str| manager.get_connection().execute_unprepared(sql).await;
        manager.create_table(keys()).await?;
        run("INSERT INTO event_keys (deduplication_key, event_id) SELECT deduplication_key, id FROM events").await?;
        let by_event = Index::create()
            .name("event_keys_event_idx")
            .table(KEYS)
            .col("event_id")
            .to_owned();
        manager.create_index(by_event).await?;
        for name in [UNIQUE, CREATED] {
            let index = Index::drop().name(name).table(TABLE).to_owned();
            manager.drop_index(index).await?;
        }
        if manager.get_database_backend() == DbBackend::Postgres {
            // It would keep a month of events from being dropped.
            run("ALTER TABLE deliveries DROP CONSTRAINT deliveries_event_fkey").await?;
            crate::months::divide(manager, TABLE).await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let run = async |sql: &str| manager.get_connection().execute_unprepared(sql).await;
        let is_postgres = manager.get_database_backend() == DbBackend::Postgres;
        if is_postgres {
            crate::months::unite(manager, TABLE).await?;
        }
        let mut unique = Index::create().name(UNIQUE).table(TABLE).unique().to_owned();
        manager.create_index(unique.col("deduplication_key").to_owned()).await?;
        let mut created = Index::create().name(CREATED).table(TABLE).to_owned();
        manager
            .create_index(created.col("created_at").col("id").to_owned())
            .await?;
        if is_postgres {
            run(
                "ALTER TABLE deliveries ADD CONSTRAINT deliveries_event_fkey FOREIGN KEY (event_id) \
                 REFERENCES events (id)",
            )
            .await?;
        }
        crate::tables::drop_tables(manager, &[KEYS]).await
    }
}

fn keys() -> TableCreateStatement {
    Table::create()
        .table(KEYS)
        .col(text("deduplication_key").primary_key())
        .col(text("event_id"))
        .to_owned()
}
