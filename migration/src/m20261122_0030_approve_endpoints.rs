//! An endpoint that a public client ID registered is told nothing about persons until somebody approves it.
//!
//! Who registered an endpoint was not kept, so those of public client IDs wait for approval.

use sea_orm_migration::{prelude::*, schema::*, sea_orm::DbBackend};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let approved = boolean("is_approved").default(true).to_owned();
        let added = Table::alter()
            .table("webhook_endpoints")
            .add_column(approved)
            .to_owned();
        manager.alter_table(added).await?;
        let length = match manager.get_database_backend() {
            DbBackend::Postgres => "jsonb_array_length",
            _ => "json_array_length",
        };
        let waiting = format!(
            "UPDATE webhook_endpoints SET is_approved = false WHERE client_row IN \
             (SELECT id FROM client_ids WHERE {length}(allowed_domains) > 0)"
        );
        manager.get_connection().execute_unprepared(&waiting).await?;
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let removed = Table::alter()
            .table("webhook_endpoints")
            .drop_column("is_approved")
            .to_owned();
        manager.alter_table(removed).await
    }
}
