//! What waits for a try moves from the log of deliveries to a queue of its own, and the log keeps a success in the row of
//! its delivery. Source: ADR-0018.
//!
//! A try that arrived before keeps its row. The way back gives every success a row, under the id of its delivery.

use sea_orm_migration::{prelude::*, schema::*, sea_orm::DbBackend};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const QUEUE: &str = "delivery_queue";
const LOG: &str = "deliveries";

/// What the queue takes over.
const WAITING: &str =
    "id, event_id, endpoint_id, owner_id, is_test, is_replay, retry_count, next_at, lease_until, lease_token";

/// An index: its name, its table, its columns, and the condition of its rows.
type IndexOf = (&'static str, &'static str, &'static [&'static str], &'static str);

/// Indexes that told what waits, what failed, and how much of each there is.
const FORMER: [IndexOf; 7] = [
    ("deliveries_due_idx", LOG, &["next_at"], "state = 'queued'"),
    (
        "deliveries_queued_endpoint_idx",
        LOG,
        &["endpoint_id"],
        "state = 'queued'",
    ),
    (
        "deliveries_owner_due_idx",
        LOG,
        &["owner_id", "next_at"],
        "state = 'queued'",
    ),
    (
        "deliveries_created_idx",
        LOG,
        &["owner_id", "created_at", "endpoint_id", "state"],
        "",
    ),
    ("deliveries_state_idx", LOG, &["owner_id", "state", "id"], ""),
    (
        "deliveries_recovery_idx",
        LOG,
        &["recover_at"],
        "state = 'failed' AND NOT is_test",
    ),
    (
        "deliveries_recovery_endpoint_idx",
        LOG,
        &["endpoint_id", "recover_from"],
        "state = 'failed' AND NOT is_test AND recover_at IS NOT NULL",
    ),
];

/// What takes their place. None of the log holds what a success changes, so that PostgreSQL writes it beside the row and
/// no index is touched.
const INDEXES: [IndexOf; 5] = [
    ("delivery_queue_due_idx", QUEUE, &["next_at"], ""),
    (
        "delivery_queue_endpoint_idx",
        QUEUE,
        &["owner_id", "endpoint_id", "next_at"],
        "",
    ),
    (
        "deliveries_missed_idx",
        LOG,
        &["owner_id", "missed", "id"],
        "missed IS NOT NULL",
    ),
    (
        "deliveries_recovery_idx",
        LOG,
        &["recover_at"],
        "missed = 'failed' AND NOT is_test",
    ),
    (
        "deliveries_recovery_endpoint_idx",
        LOG,
        &["endpoint_id", "recover_from"],
        "missed = 'failed' AND NOT is_test AND recover_at IS NOT NULL",
    ),
];

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.create_table(queue()).await?;
        let run = async |sql: &str| manager.get_connection().execute_unprepared(sql).await;
        run(&format!(
            "INSERT INTO {QUEUE} ({WAITING}) SELECT {WAITING} FROM {LOG} WHERE state = 'queued'"
        ))
        .await?;
        drop_indexes(manager, &FORMER).await?;
        for column in added() {
            let added = Table::alter().table(LOG).add_column(column).to_owned();
            manager.alter_table(added).await?;
        }
        run("UPDATE deliveries SET missed = state WHERE state IN ('failed', 'cancelled')").await?;
        for column in ["next_at", "lease_until", "lease_token"] {
            drop_column(manager, column).await?;
        }
        create_indexes(manager, &INDEXES).await?;
        if manager.get_database_backend() == DbBackend::Postgres {
            // A batch changes every row of a page at once, so there is room for each of them twice. The queue is short
            // and always new.
            run("ALTER TABLE deliveries SET (fillfactor = 45)").await?;
            run(
                "ALTER TABLE delivery_queue SET (fillfactor = 45, autovacuum_vacuum_scale_factor = 0.02, \
                 autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0)",
            )
            .await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let run = async |sql: &str| manager.get_connection().execute_unprepared(sql).await;
        drop_indexes(manager, &INDEXES).await?;
        let next_at = timestamp_with_time_zone("next_at")
            .default("1970-01-01T00:00:00+00:00")
            .to_owned();
        for column in [
            next_at,
            timestamp_with_time_zone_null("lease_until"),
            text_null("lease_token"),
        ] {
            let added = Table::alter().table(LOG).add_column(column).to_owned();
            manager.alter_table(added).await?;
        }
        run("UPDATE deliveries SET next_at = created_at").await?;
        run(
            "UPDATE deliveries SET next_at = waiting.next_at, retry_count = waiting.retry_count, \
               lease_until = waiting.lease_until, lease_token = waiting.lease_token \
             FROM delivery_queue AS waiting WHERE waiting.id = deliveries.id",
        )
        .await?;
        run(
            "INSERT INTO delivery_attempts (id, delivery_id, number, started_at, ended_at, status, response) \
             SELECT id, id, success_number, success_started_at, success_ended_at, success_status, success_response \
             FROM deliveries WHERE success_number IS NOT NULL",
        )
        .await?;
        for column in added() {
            drop_column(manager, &column.get_column_name()).await?;
        }
        manager.drop_table(Table::drop().table(QUEUE).to_owned()).await?;
        create_indexes(manager, &FORMER).await?;
        if manager.get_database_backend() == DbBackend::Postgres {
            run("ALTER TABLE deliveries ALTER COLUMN next_at DROP DEFAULT").await?;
            run("ALTER TABLE deliveries SET (fillfactor = 70)").await?;
        }
        Ok(())
    }
}

fn queue() -> TableCreateStatement {
    Table::create()
        .table(QUEUE)
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

fn added() -> [ColumnDef; 6] {
    [
        text_null("missed"),
        integer_null("success_number"),
        timestamp_with_time_zone_null("success_started_at"),
        timestamp_with_time_zone_null("success_ended_at"),
        integer_null("success_status"),
        text_null("success_response"),
    ]
}

async fn create_indexes(manager: &SchemaManager<'_>, indexes: &[IndexOf]) -> Result<(), DbErr> {
    for (name, table, columns, condition) in indexes {
        let mut index = Index::create().name(*name).table(*table).to_owned();
        for column in *columns {
            index.col(*column);
        }
        if !condition.is_empty() {
            index.and_where(Expr::cust(*condition));
        }
        manager.create_index(index).await?;
    }
    Ok(())
}

async fn drop_indexes(manager: &SchemaManager<'_>, indexes: &[IndexOf]) -> Result<(), DbErr> {
    for (name, table, ..) in indexes {
        manager
            .drop_index(Index::drop().name(*name).table(*table).to_owned())
            .await?;
    }
    Ok(())
}

async fn drop_column(manager: &SchemaManager<'_>, column: &str) -> Result<(), DbErr> {
    let removed = Table::alter().table(LOG).drop_column(column.to_owned()).to_owned();
    manager.alter_table(removed).await
}
