//! Locks of links that a Safe account is about to pay, the Safes that got calldata of a link, and more facts about what
//! payers report.

use crate::tables::{create, drop_tables, key};
use sea_orm_migration::{prelude::*, schema::*};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

/// Columns of the lock of a link.
const OF_LOCK: [fn() -> ColumnDef; 4] = [
    || timestamp_with_time_zone_null("locked_until"),
    || text_null("locked_by"),
    || text_null("lock_hash"),
    || timestamp_with_time_zone_null("locks_released_at"),
];

/// Columns of a report.
const OF_INTENT: [fn() -> ColumnDef; 10] = [
    || text("network").default("").take(),
    || text("token").default("").take(),
    || text("kind").default("transaction").take(),
    || text("state").default("reported").take(),
    || text_null("amount"),
    || timestamp_with_time_zone_null("deadline"),
    || big_integer_null("searched_to"),
    || timestamp_with_time_zone_null("searched_at"),
    || text_null("executed_by"),
    || json_binary_null("transaction_indices"),
];

const TABLES: [fn() -> TableCreateStatement; 1] = [secure_payment_safes];

const INDEXES: [&str; 3] = [
    r#"UPDATE "secure_payment_intents" SET "network" = (SELECT "secure_payments"."network" FROM "secure_payments"
        WHERE "secure_payments"."platform_id" = "secure_payment_intents"."platform_id"
        AND "secure_payments"."id" = "secure_payment_intents"."secure_payment_id")"#,
    r#"CREATE UNIQUE INDEX "secure_payment_intents_place_key" ON "secure_payment_intents"
        ("platform_id", "secure_payment_id", "network", "hash")"#,
    r#"CREATE INDEX "secure_payment_intents_awaited_idx" ON "secure_payment_intents" ("network", "searched_at")
        WHERE state = 'awaiting_execution'"#,
];

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        add(manager, "secure_payments", &OF_LOCK).await?;
        let sql = manager.get_connection();
        sql.execute_unprepared(r#"DROP INDEX "secure_payment_intents_key""#)
            .await?;
        rename(manager, "tx_hash", "hash").await?;
        add(manager, "secure_payment_intents", &OF_INTENT).await?;
        create(manager, &TABLES, &INDEXES).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop_tables(manager, &TABLES).await?;
        let sql = manager.get_connection();
        for statement in [
            r#"DELETE FROM "secure_payment_intents" WHERE kind <> 'transaction'"#,
            r#"DROP INDEX "secure_payment_intents_place_key""#,
            r#"DROP INDEX "secure_payment_intents_awaited_idx""#,
        ] {
            sql.execute_unprepared(statement).await?;
        }
        remove(manager, "secure_payment_intents", &OF_INTENT).await?;
        rename(manager, "hash", "tx_hash").await?;
        sql.execute_unprepared(
            r#"CREATE UNIQUE INDEX "secure_payment_intents_key" ON "secure_payment_intents"
            ("platform_id", "secure_payment_id", "tx_hash")"#,
        )
        .await?;
        remove(manager, "secure_payments", &OF_LOCK).await
    }
}

async fn add(manager: &SchemaManager<'_>, table: &'static str, columns: &[fn() -> ColumnDef]) -> Result<(), DbErr> {
    for column in columns {
        let widened = Table::alter().table(table).add_column(column()).to_owned();
        manager.alter_table(widened).await?;
    }
    Ok(())
}

async fn remove(manager: &SchemaManager<'_>, table: &'static str, columns: &[fn() -> ColumnDef]) -> Result<(), DbErr> {
    for column in columns.iter().rev() {
        let narrowed = Table::alter()
            .table(table)
            .drop_column(column().get_column_name())
            .to_owned();
        manager.alter_table(narrowed).await?;
    }
    Ok(())
}

async fn rename(manager: &SchemaManager<'_>, from: &'static str, to: &'static str) -> Result<(), DbErr> {
    let renamed = Table::alter()
        .table("secure_payment_intents")
        .rename_column(from, to)
        .to_owned();
    manager.alter_table(renamed).await
}

fn secure_payment_safes() -> TableCreateStatement {
    Table::create()
        .table("secure_payment_safes")
        .col(text("platform_id"))
        .col(text("secure_payment_id"))
        .col(text("safe"))
        .col(timestamp_with_time_zone("handed_at"))
        .col(timestamp_with_time_zone_null("locked_at"))
        .primary_key(&mut key(
            "secure_payment_safes_pkey",
            "platform_id, secure_payment_id, safe",
        ))
        .to_owned()
}
