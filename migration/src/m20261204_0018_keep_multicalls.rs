//! Links that pay the requests of other links in one transaction.

use sea_orm_migration::{prelude::*, schema::*};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const DOWN: [&str; 2] = [
    r#"DELETE FROM "secure_payments" WHERE EXISTS (SELECT 1 FROM "secure_payment_items"
        WHERE "secure_payment_items"."platform_id" = "secure_payments"."platform_id"
        AND "secure_payment_items"."secure_payment_id" = "secure_payments"."id"
        AND "secure_payment_items"."child_token" IS NOT NULL)"#,
    r#"DELETE FROM "secure_payment_items" WHERE "child_token" IS NOT NULL"#,
];

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let child = text_null("child_token");
        let widened = Table::alter()
            .table("secure_payment_items")
            .add_column(child)
            .to_owned();
        manager.alter_table(widened).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        // Without the column, a multicall would pay the requests of its children like a batch. The children stay.
        for statement in DOWN {
            manager.get_connection().execute_unprepared(statement).await?;
        }
        let narrowed = Table::alter()
            .table("secure_payment_items")
            .drop_column("child_token")
            .to_owned();
        manager.alter_table(narrowed).await
    }
}
