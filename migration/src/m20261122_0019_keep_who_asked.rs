//! Who asked for what was handed out, and which requests are older than the keeping of it.

use sea_orm_migration::{prelude::*, schema::*};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        // Rows of before were asked for by nobody who is known, so that their fees hold nobody.
        for (table, column) in [
            ("handed_out", text("client_row").default("").to_owned()),
            ("handed_out", boolean("is_binding").default(false).to_owned()),
            // What stands here already may have been answered before answers were kept.
            ("requests", boolean("has_unkept_answers").default(true).to_owned()),
        ] {
            let added = Table::alter().table(table).add_column(column).to_owned();
            manager.alter_table(added).await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for (table, column) in [
            ("requests", "has_unkept_answers"),
            ("handed_out", "is_binding"),
            ("handed_out", "client_row"),
        ] {
            let removed = Table::alter().table(table).drop_column(column).to_owned();
            manager.alter_table(removed).await?;
        }
        Ok(())
    }
}
