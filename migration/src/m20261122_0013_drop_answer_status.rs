//! Stored answers lose their status: an operation has one for its successes, and only successes are stored.

use sea_orm_migration::{prelude::*, schema::*};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let change = Table::alter()
            .table("idempotency_keys")
            .drop_column("status")
            .to_owned();
        manager.alter_table(change).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let change = Table::alter()
            .table("idempotency_keys")
            .add_column(integer_null("status"))
            .to_owned();
        manager.alter_table(change).await?;
        // The program of before takes an answer without a status for a broken row and never sends the number.
        let fill = "UPDATE idempotency_keys SET status = 201";
        manager.get_connection().execute_unprepared(fill).await?;
        Ok(())
    }
}
