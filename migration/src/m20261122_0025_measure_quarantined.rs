//! How much money something that was set aside moved, so that the largest is found first.

use sea_orm_migration::{prelude::*, schema::*};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

/// Units of the payment currency, and what they would settle of the request.
const COLUMNS: [&str; 2] = ["units", "settlement_units"];

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for column in COLUMNS {
            let added = Table::alter()
                .table("chain_quarantine")
                .add_column(text_null(column))
                .to_owned();
            manager.alter_table(added).await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        // The version before does not know the state; what has it waits for nobody there either.
        let known = Query::update()
            .table("chain_quarantine")
            .value("state", "settled")
            .and_where(Expr::col("state").eq("minor"))
            .to_owned();
        manager.execute(known).await?;
        for column in COLUMNS.into_iter().rev() {
            let removed = Table::alter().table("chain_quarantine").drop_column(column).to_owned();
            manager.alter_table(removed).await?;
        }
        Ok(())
    }
}
