//! Links of orchestrators to client IDs with the consent of their platforms, orchestrators that the operator disabled,
//! and the orchestrator of each payment.

use crate::tables::{create, drop_tables, key};
use sea_orm_migration::{prelude::*, schema::*};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

/// Tables that get the column `orchestrator_id`.
const WITH_ORCHESTRATOR: [&str; 3] = ["client_ids", "secure_payments", "requests"];

const TABLES: [fn() -> TableCreateStatement; 1] = [orchestrator_links];

const INDEXES: [&str; 1] = [r#"CREATE INDEX "orchestrator_links_active_idx" ON "orchestrator_links"
    ("orchestrator_id", "linked_at", "client_row") WHERE status = 'active'"#];

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let disabled_at = timestamp_with_time_zone_null("disabled_at");
        let with_time = Table::alter().table("orchestrators").add_column(disabled_at).to_owned();
        manager.alter_table(with_time).await?;
        for table in WITH_ORCHESTRATOR {
            let column = text_null("orchestrator_id");
            let widened = Table::alter().table(table).add_column(column).to_owned();
            manager.alter_table(widened).await?;
        }
        create(manager, &TABLES, &INDEXES).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop_tables(manager, &TABLES).await?;
        for table in WITH_ORCHESTRATOR.iter().rev() {
            let narrowed = Table::alter().table(*table).drop_column("orchestrator_id").to_owned();
            manager.alter_table(narrowed).await?;
        }
        let without_time = Table::alter()
            .table("orchestrators")
            .drop_column("disabled_at")
            .to_owned();
        manager.alter_table(without_time).await
    }
}

/// One row for each client ID: it is linked once in its life.
fn orchestrator_links() -> TableCreateStatement {
    Table::create()
        .table("orchestrator_links")
        .col(text("platform_id"))
        .col(text("client_row"))
        .col(text("orchestrator_id"))
        .col(text("status"))
        .col(timestamp_with_time_zone("linked_at"))
        .col(timestamp_with_time_zone_null("ended_at"))
        .primary_key(&mut key("orchestrator_links_pkey", "platform_id, client_row"))
        .to_owned()
}
