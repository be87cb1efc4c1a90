//! Orchestrators and their keys; endpoints, events and deliveries that belong to one; secrets that outlive a rotation.

use sea_orm_migration::{prelude::*, schema::*};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const TABLES: [&str; 2] = ["orchestrators", "orchestrator_keys"];

/// Tables whose rows belonged to platforms alone and belong to a platform or an orchestrator now.
const OWNED: [&str; 4] = ["webhook_endpoints", "events", "deliveries", "idempotency_keys"];

/// What belongs to orchestrators goes with them: without their tables it would be nobody's.
const FORGET: [&str; 5] = [
    "DELETE FROM delivery_attempts WHERE delivery_id IN (SELECT id FROM deliveries WHERE owner_id IN (SELECT id FROM \
     orchestrators))",
    "DELETE FROM deliveries WHERE owner_id IN (SELECT id FROM orchestrators)",
    "DELETE FROM events WHERE owner_id IN (SELECT id FROM orchestrators)",
    "DELETE FROM webhook_endpoints WHERE owner_id IN (SELECT id FROM orchestrators)",
    "DELETE FROM idempotency_keys WHERE owner_id IN (SELECT id FROM orchestrators)",
];

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for table in [orchestrators(), orchestrator_keys()] {
            manager.create_table(table).await?;
        }
        for index in indexes() {
            manager.create_index(index).await?;
        }
        rename(manager, "platform_id", "owner_id").await?;
        let former_secrets = Table::alter()
            .table("webhook_endpoints")
            .add_column(json_binary_null("former_secrets"))
            .to_owned();
        manager.alter_table(former_secrets).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for statement in FORGET {
            manager.get_connection().execute_unprepared(statement).await?;
        }
        let former_secrets = Table::alter()
            .table("webhook_endpoints")
            .drop_column("former_secrets")
            .to_owned();
        manager.alter_table(former_secrets).await?;
        rename(manager, "owner_id", "platform_id").await?;
        crate::tables::drop_tables(manager, &TABLES).await
    }
}

async fn rename(manager: &SchemaManager<'_>, from: &'static str, to: &'static str) -> Result<(), DbErr> {
    for table in OWNED {
        manager
            .alter_table(Table::alter().table(table).rename_column(from, to).to_owned())
            .await?;
    }
    Ok(())
}

fn orchestrators() -> TableCreateStatement {
    Table::create()
        .table("orchestrators")
        .col(text("id").primary_key())
        .col(text("name"))
        .col(timestamp_with_time_zone("created_at"))
        .to_owned()
}

fn orchestrator_keys() -> TableCreateStatement {
    Table::create()
        .table("orchestrator_keys")
        .col(text("id").primary_key())
        .col(text("orchestrator_id"))
        .col(text("hash"))
        .col(text("hint"))
        .col(text_null("label"))
        .col(timestamp_with_time_zone("created_at"))
        .col(timestamp_with_time_zone_null("revoked_at"))
        .col(timestamp_with_time_zone_null("last_used_at"))
        .to_owned()
}

fn indexes() -> Vec<IndexCreateStatement> {
    vec![
        Index::create()
            .name("orchestrator_keys_hash_key")
            .table("orchestrator_keys")
            .col("hash")
            .unique()
            .to_owned(),
        Index::create()
            .name("orchestrator_keys_orchestrator_idx")
            .table("orchestrator_keys")
            .col("orchestrator_id")
            .to_owned(),
    ]
}
