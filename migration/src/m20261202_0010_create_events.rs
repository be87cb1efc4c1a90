//! The log of events, by month on PostgreSQL. Source: ADR-0019.

use crate::{
    months::create_divided,
    tables::{create, drop_tables, key},
};
use sea_orm_migration::{prelude::*, schema::*};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

/// They are dropped from the last to the first.
const TABLES: [fn() -> TableCreateStatement; 2] = [events, event_keys];

const INDEXES: [&str; 5] = [
    r#"CREATE INDEX "events_kind_idx" ON "events" ("owner_id", "kind", "id")"#,
    r#"CREATE INDEX "events_request_idx" ON "events" ("request_id", "id")"#,
    // By the client ID alone, PostgreSQL cannot tell that its events are few of the owner's.
    r#"CREATE INDEX "events_of_client_idx" ON "events" ("owner_id", "client_row", "id")
        WHERE client_row IS NOT NULL"#,
    r#"CREATE INDEX "events_of_client_kind_idx" ON "events" ("owner_id", "client_row", "kind", "id")
        WHERE client_row IS NOT NULL"#,
    // It leads to what is old, of all owners.
    r#"CREATE INDEX "event_keys_event_idx" ON "event_keys" ("event_id")"#,
];

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        create_divided(manager, "events", events(), "").await?;
        create(manager, &[event_keys], &INDEXES).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop_tables(manager, &TABLES).await
    }
}

fn events() -> TableCreateStatement {
    Table::create()
        .table("events")
        .col(text("id"))
        .col(text("owner_id"))
        .col(text_null("client_row"))
        .col(text("kind"))
        .col(text("deduplication_key"))
        .col(text_null("request_id"))
        .col(text("body"))
        .col(timestamp_with_time_zone("created_at"))
        .primary_key(&mut key("events_pkey", "owner_id, id"))
        .to_owned()
}

/// Deduplication keys are unique over all months, so they have a table of their own.
fn event_keys() -> TableCreateStatement {
    Table::create()
        .table("event_keys")
        .col(text("owner_id"))
        .col(text("deduplication_key"))
        .col(text("event_id"))
        .primary_key(&mut key("event_keys_pkey", "owner_id, deduplication_key"))
        .to_owned()
}
