//! What was told of payments and requests, so that it is taken back once and told again once.

use sea_orm_migration::{prelude::*, schema::*};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

/// Payments of before: the one that completed its request was told, and those that were recorded before it; a request
/// was told as often as its payments were reversed.
const FILL: [&str; 4] = [
    "UPDATE requests SET is_told_paid = true WHERE status = 'paid'",
    "UPDATE requests SET reversals = (SELECT COALESCE(SUM(gone.reversals), 0) FROM payments gone \
     WHERE gone.platform_id = requests.platform_id AND gone.request_id = requests.request_id) \
     WHERE id IN (SELECT request_row FROM payments WHERE reversals > 0)",
    "UPDATE payments SET is_told = true WHERE reversed_at IS NULL",
    "UPDATE payments SET is_told = false WHERE EXISTS (SELECT 1 FROM payments last \
     JOIN requests ON requests.id = last.request_row AND requests.tx_hash IN (last.tx_hash, '0x' || last.tx_hash) \
     WHERE last.platform_id = payments.platform_id AND last.request_id = payments.request_id \
     AND last.reversed_at IS NULL AND (last.created_at, last.id) < (payments.created_at, payments.id))",
];

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        add(manager, "requests", boolean("is_told_paid").default(false).to_owned()).await?;
        add(manager, "requests", integer("reversals").default(0).to_owned()).await?;
        add(manager, "payments", boolean("is_told").default(false).to_owned()).await?;
        for statement in FILL {
            manager.get_connection().execute_unprepared(statement).await?;
        }
        remove(manager, "payments", "reversals").await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        add(manager, "payments", integer("reversals").default(0).to_owned()).await?;
        // Keys of events count on: a payment that was reversed never has fewer reversals than its events say.
        let counted = "UPDATE payments SET reversals = (SELECT requests.reversals FROM requests \
                       WHERE requests.id = payments.request_row) \
                       WHERE request_row IN (SELECT id FROM requests WHERE reversals > 0)";
        manager.get_connection().execute_unprepared(counted).await?;
        remove(manager, "payments", "is_told").await?;
        remove(manager, "requests", "reversals").await?;
        remove(manager, "requests", "is_told_paid").await
    }
}

async fn add(manager: &SchemaManager<'_>, table: &'static str, column: ColumnDef) -> Result<(), DbErr> {
    manager
        .alter_table(Table::alter().table(table).add_column(column).to_owned())
        .await
}

async fn remove(manager: &SchemaManager<'_>, table: &'static str, column: &'static str) -> Result<(), DbErr> {
    manager
        .alter_table(Table::alter().table(table).drop_column(column).to_owned())
        .await
}
