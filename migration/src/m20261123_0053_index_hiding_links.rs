//! Links that hide something are found by their platform: searches of public client IDs leave their payments out, and ask
//! first whether there are any.

use sea_orm_migration::prelude::*;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const HIDING: &str = "secure_payments_hiding_idx";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        // The query builder writes no conditions into indexes of SQLite.
        let index = format!(
            "CREATE INDEX {HIDING} ON secure_payments (platform_id) WHERE (hides_payee OR hides_until_approved)"
        );
        manager.get_connection().execute_unprepared(&index).await?;
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let dropped = Index::drop().name(HIDING).table("secure_payments").to_owned();
        manager.drop_index(dropped).await
    }
}
