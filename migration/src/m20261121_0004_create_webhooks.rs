//! Receivers of webhooks, events, their deliveries and tries.

use sea_orm_migration::{prelude::*, schema::*, sea_orm::DbBackend};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const TABLES: [&str; 4] = ["webhook_endpoints", "events", "deliveries", "delivery_attempts"];

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for table in [webhook_endpoints(), events(), deliveries(), delivery_attempts()] {
            manager.create_table(table).await?;
        }
        for index in indexes() {
            manager.create_index(index).await?;
        }
        if manager.get_database_backend() == DbBackend::Postgres {
            // Each delivery is updated a few times within seconds: room in the page keeps these updates cheap, and
            // frequent vacuuming keeps the queue index short.
            manager
                .get_connection()
                .execute_unprepared(
                    "ALTER TABLE deliveries SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, \
                     autovacuum_vacuum_threshold = 1000)",
                )
                .await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        crate::tables::drop_tables(manager, &TABLES).await
    }
}

fn webhook_endpoints() -> TableCreateStatement {
    Table::create()
        .table("webhook_endpoints")
        .col(text("id").primary_key())
        .col(text("platform_id"))
        .col(text_null("client_row"))
        .col(text("url"))
        .col(text("secret_sealed"))
        .col(boolean("is_active"))
        .col(timestamp_with_time_zone("created_at"))
        .to_owned()
}

fn events() -> TableCreateStatement {
    Table::create()
        .table("events")
        .col(text("id").primary_key())
        .col(text("platform_id"))
        .col(text_null("client_row"))
        .col(text("kind"))
        .col(text("deduplication_key"))
        .col(text_null("request_id"))
        .col(text("body"))
        .col(timestamp_with_time_zone("created_at"))
        .to_owned()
}

fn deliveries() -> TableCreateStatement {
    Table::create()
        .table("deliveries")
        .col(text("id").primary_key())
        .col(text("event_id"))
        .col(text("endpoint_id"))
        .col(text("platform_id"))
        .col(text("state"))
        .col(integer("retry_count"))
        .col(timestamp_with_time_zone("next_at"))
        .col(timestamp_with_time_zone_null("lease_until"))
        .col(text_null("lease_token"))
        .col(boolean("is_test"))
        .col(timestamp_with_time_zone("created_at"))
        .col(timestamp_with_time_zone_null("finished_at"))
        // There is none to the endpoint: its deliveries stay when it is deleted.
        .foreign_key(
            ForeignKey::create()
                .name("deliveries_event_fkey")
                .from("deliveries", "event_id")
                .to("events", "id"),
        )
        .to_owned()
}

fn delivery_attempts() -> TableCreateStatement {
    Table::create()
        .table("delivery_attempts")
        .col(text("id").primary_key())
        .col(text("delivery_id"))
        .col(integer("number"))
        .col(timestamp_with_time_zone("started_at"))
        .col(timestamp_with_time_zone("ended_at"))
        .col(integer_null("status"))
        .col(text_null("error"))
        .col(text_null("response"))
        .to_owned()
}

fn indexes() -> Vec<IndexCreateStatement> {
    let is_queued = || Expr::cust("state = 'queued'");
    vec![
        Index::create()
            .name("webhook_endpoints_client_url_key")
            .table("webhook_endpoints")
            .col("platform_id")
            .col("client_row")
            .col("url")
            .unique()
            .to_owned(),
        // Nulls are distinct in the index above, so receivers of the whole platform need their own.
        Index::create()
            .name("webhook_endpoints_platform_url_key")
            .table("webhook_endpoints")
            .col("platform_id")
            .col("url")
            .unique()
            .and_where(Expr::col("client_row").is_null())
            .to_owned(),
        Index::create()
            .name("events_deduplication_key")
            .table("events")
            .col("deduplication_key")
            .unique()
            .to_owned(),
        Index::create()
            .name("deliveries_due_idx")
            .table("deliveries")
            .col("next_at")
            .and_where(is_queued())
            .to_owned(),
        Index::create()
            .name("deliveries_queued_endpoint_idx")
            .table("deliveries")
            .col("endpoint_id")
            .and_where(is_queued())
            .to_owned(),
        Index::create()
            .name("deliveries_event_idx")
            .table("deliveries")
            .col("event_id")
            .to_owned(),
        Index::create()
            .name("delivery_attempts_delivery_idx")
            .table("delivery_attempts")
            .col("delivery_id")
            .to_owned(),
    ]
}
