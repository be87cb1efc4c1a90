//! The log of events: replays are marked, an event is delivered to an endpoint by one delivery only, and every way to
//! read the log has its index.

use sea_orm_migration::{prelude::*, schema::*};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let is_replay = Table::alter()
            .table("deliveries")
            .add_column(boolean("is_replay").default(false))
            .to_owned();
        manager.alter_table(is_replay).await?;
        manager
            .drop_index(
                Index::drop()
                    .name("deliveries_event_idx")
                    .table("deliveries")
                    .to_owned(),
            )
            .await?;
        for index in indexes() {
            manager.create_index(index).await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for (name, table, _) in NAMES {
            manager
                .drop_index(Index::drop().name(name).table(table).to_owned())
                .await?;
        }
        manager
            .drop_index(
                Index::drop()
                    .name("deliveries_event_endpoint_key")
                    .table("deliveries")
                    .to_owned(),
            )
            .await?;
        let by_event = Index::create()
            .name("deliveries_event_idx")
            .table("deliveries")
            .col("event_id")
            .to_owned();
        manager.create_index(by_event).await?;
        let is_replay = Table::alter().table("deliveries").drop_column("is_replay").to_owned();
        manager.alter_table(is_replay).await
    }
}

/// Name, table and columns of the indexes that only serve reading.
const NAMES: [(&str, &str, &[&str]); 7] = [
    ("events_platform_idx", "events", &["platform_id", "id"]),
    ("events_kind_idx", "events", &["platform_id", "kind", "id"]),
    ("events_client_idx", "events", &["client_row", "id"]),
    ("events_request_idx", "events", &["request_id", "id"]),
    ("events_created_idx", "events", &["created_at", "id"]),
    ("deliveries_platform_idx", "deliveries", &["platform_id", "id"]),
    ("deliveries_endpoint_idx", "deliveries", &["endpoint_id", "id"]),
];

fn indexes() -> Vec<IndexCreateStatement> {
    let one_each = Index::create()
        .name("deliveries_event_endpoint_key")
        .table("deliveries")
        .col("event_id")
        .col("endpoint_id")
        .unique()
        .to_owned();
    let reading = NAMES.into_iter().map(|(name, table, columns)| {
        let mut index = Index::create().name(name).table(table).to_owned();
        for column in columns {
            index.col(*column);
        }
        index
    });
    std::iter::once(one_each).chain(reading).collect()
}
