//! Fee configs of orchestrators, and the fees of orchestrators that payments and links carry.

use crate::tables::{create, drop_tables, key};
use sea_orm_migration::{prelude::*, schema::*};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

/// Tables that get the column `orchestrator_fees`.
const WITH_FEES: [fn() -> (&'static str, ColumnDef); 3] = [
    || ("requests", text_null("orchestrator_fees")),
    || ("payments", text_null("orchestrator_fees")),
    || ("secure_payment_items", json_binary_null("orchestrator_fees")),
];

const TABLES: [fn() -> TableCreateStatement; 1] = [fee_configs];

const INDEXES: [&str; 1] = [r#"CREATE UNIQUE INDEX "fee_configs_scope_key" ON "fee_configs"
    ("orchestrator_id", "scope", "flow", "bearer")"#];

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for column in WITH_FEES {
            let (table, mut column) = column();
            let widened = Table::alter().table(table).add_column(&mut column).to_owned();
            manager.alter_table(widened).await?;
        }
        create(manager, &TABLES, &INDEXES).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop_tables(manager, &TABLES).await?;
        for column in WITH_FEES.iter().rev() {
            let (table, _) = column();
            let narrowed = Table::alter().table(table).drop_column("orchestrator_fees").to_owned();
            manager.alter_table(narrowed).await?;
        }
        Ok(())
    }
}

/// One row for each scope, flow and bearer. The scope is the row of a client ID, or empty for all of them.
fn fee_configs() -> TableCreateStatement {
    Table::create()
        .table("fee_configs")
        .col(text("orchestrator_id"))
        .col(text("id"))
        .col(text("scope"))
        .col(text_null("client_id"))
        .col(text("flow"))
        .col(text("bearer"))
        .col(integer("basis_points"))
        .col(text_null("cap_usd"))
        .col(text_null("evm_receiver"))
        .col(text_null("tron_receiver"))
        .col(text("status"))
        .col(timestamp_with_time_zone("created_at"))
        .col(timestamp_with_time_zone("updated_at"))
        .primary_key(&mut key("fee_configs_pkey", "orchestrator_id, id"))
        .to_owned()
}
