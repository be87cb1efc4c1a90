//! Receivers of webhooks, and deliveries with their tries, by month on PostgreSQL. Source: ADR-0018; ADR-0019.

use crate::{
    months::create_divided,
    tables::{create, drop_tables, key},
};
use sea_orm_migration::{prelude::*, schema::*, sea_orm::DbBackend};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

/// They are dropped from the last to the first.
const TABLES: [fn() -> TableCreateStatement; 4] = [webhook_endpoints, deliveries, delivery_attempts, delivery_queue];

/// None of those of deliveries holds what a success changes, so that PostgreSQL writes it beside the row and no index is
/// touched.
const INDEXES: [&str; 9] = [
    r#"CREATE UNIQUE INDEX "webhook_endpoints_client_url_key" ON "webhook_endpoints"
        ("owner_id", "client_row", "url")"#,
    // Nulls are distinct in the index by client ID, so receivers of the whole platform need their own.
    r#"CREATE UNIQUE INDEX "webhook_endpoints_platform_url_key" ON "webhook_endpoints" ("owner_id", "url")
        WHERE "client_row" IS NULL"#,
    r#"CREATE INDEX "webhook_endpoints_recovering_idx" ON "webhook_endpoints" ("id") WHERE is_recovering"#,
    r#"CREATE INDEX "deliveries_endpoint_idx" ON "deliveries" ("endpoint_id", "id")"#,
    r#"CREATE INDEX "deliveries_missed_idx" ON "deliveries" ("owner_id", "missed", "id") WHERE missed IS NOT NULL"#,
    r#"CREATE INDEX "deliveries_recovery_idx" ON "deliveries" ("recover_at")
        WHERE missed = 'failed' AND NOT is_test"#,
    r#"CREATE INDEX "deliveries_recovery_endpoint_idx" ON "deliveries" ("endpoint_id", "recover_from")
        WHERE missed = 'failed' AND NOT is_test AND recover_at IS NOT NULL"#,
    r#"CREATE INDEX "delivery_queue_due_idx" ON "delivery_queue" ("next_at")"#,
    r#"CREATE INDEX "delivery_queue_endpoint_idx" ON "delivery_queue" ("owner_id", "endpoint_id", "next_at")"#,
];

/// How rows that change a few times within seconds are stored: a batch changes every row of a page at once, so there is room
/// for each of them twice, and frequent vacuuming keeps the indexes short.
const STORED: &str =
    "WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, fillfactor = 45)";

/// The same for the queue, which is short and always new.
const QUEUED: &str = "ALTER TABLE delivery_queue SET (fillfactor = 45, autovacuum_vacuum_scale_factor = 0.02, \
    autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0)";

/// An event has one delivery for each endpoint. On PostgreSQL no index says so: its id would have to hold the month. That one
/// leads to the events of all owners, of which a month is dropped.
const OF_EVENT: &str = r#"CREATE INDEX "deliveries_event_idx" ON "deliveries" ("event_id", "endpoint_id")"#;
const ONE_OF_EVENT: &str =
    r#"CREATE UNIQUE INDEX "deliveries_event_endpoint_key" ON "deliveries" ("owner_id", "event_id", "endpoint_id")"#;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let mut logged = deliveries();
        let of_event = match manager.get_database_backend() {
            DbBackend::Postgres => OF_EVENT,
            _ => {
                // On PostgreSQL it would keep a month of events from being dropped. There is none to the endpoint: its
                // deliveries stay when it is deleted.
                logged.foreign_key(
                    ForeignKey::create()
                        .from("deliveries", ("owner_id", "event_id"))
                        .to("events", ("owner_id", "id")),
                );
                ONE_OF_EVENT
            }
        };
        create_divided(manager, "deliveries", logged, STORED).await?;
        create_divided(manager, "delivery_attempts", delivery_attempts(), "").await?;
        create(manager, &[webhook_endpoints, delivery_queue], &INDEXES).await?;
        let run = async |sql: &str| manager.get_connection().execute_unprepared(sql).await;
        run(of_event).await?;
        if manager.get_database_backend() == DbBackend::Postgres {
            run(QUEUED).await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop_tables(manager, &TABLES).await
    }
}

fn webhook_endpoints() -> TableCreateStatement {
    Table::create()
        .table("webhook_endpoints")
        .col(text("id").primary_key())
        .col(text("owner_id"))
        .col(text_null("client_row"))
        .col(text("url"))
        .col(text("secret_sealed"))
        .col(boolean("is_active"))
        .col(timestamp_with_time_zone("created_at"))
        .col(json_binary_null("former_secrets"))
        .col(timestamp_with_time_zone_null("failing_since"))
        .col(boolean("is_recovering").default(false))
        .col(text_null("header_prefix"))
        .col(boolean("is_approved").default(true))
        .col(timestamp_with_time_zone_null("failed_at"))
        .to_owned()
}

fn deliveries() -> TableCreateStatement {
    Table::create()
        .table("deliveries")
        .col(text("id"))
        .col(text("event_id"))
        .col(text("endpoint_id"))
        .col(text("owner_id"))
        .col(text("state"))
        .col(integer("retry_count"))
        .col(boolean("is_test"))
        .col(timestamp_with_time_zone("created_at"))
        .col(timestamp_with_time_zone_null("finished_at"))
        .col(boolean("is_replay").default(false))
        .col(integer("recovery_rounds").default(0))
        .col(timestamp_with_time_zone_null("recover_from"))
        .col(timestamp_with_time_zone_null("recover_at"))
        .col(text_null("missed"))
        .col(integer_null("success_number"))
        .col(timestamp_with_time_zone_null("success_started_at"))
        .col(timestamp_with_time_zone_null("success_ended_at"))
        .col(integer_null("success_status"))
        .col(text_null("success_response"))
        .primary_key(&mut key("deliveries_pkey", "owner_id, id"))
        .to_owned()
}

/// Tries that did not arrive; one that did is in the row of its delivery.
fn delivery_attempts() -> TableCreateStatement {
    Table::create()
        .table("delivery_attempts")
        .col(text("owner_id"))
        .col(text("id"))
        .col(text("delivery_id"))
        .col(integer("number"))
        .col(timestamp_with_time_zone("started_at"))
        .col(timestamp_with_time_zone("ended_at"))
        .col(integer_null("status"))
        .col(text_null("error"))
        .col(text_null("response"))
        .primary_key(&mut key("delivery_attempts_pkey", "owner_id, delivery_id, id"))
        .to_owned()
}

/// What waits for a try. Source: ADR-0018.
fn delivery_queue() -> TableCreateStatement {
    Table::create()
        .table("delivery_queue")
        .col(text("id").primary_key())
        .col(text("event_id"))
        .col(text("endpoint_id"))
        .col(text("owner_id"))
        .col(boolean("is_test"))
        .col(boolean("is_replay"))
        .col(integer("retry_count"))
        .col(timestamp_with_time_zone("next_at"))
        .col(timestamp_with_time_zone_null("lease_until"))
        .col(text_null("lease_token"))
        .to_owned()
}
