//! Rates that were accepted by pair, so that the last one is found behind any number of readings that were none.

use sea_orm_migration::prelude::*;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const ACCEPTED: &str = "rates_accepted";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let mut accepted = Index::create().name(ACCEPTED).table("rates").to_owned();
        accepted.col("symbol").col("invoice").col("read_at");
        accepted.and_where(Expr::cust("state = 'accepted'"));
        manager.create_index(accepted).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let dropped = Index::drop().name(ACCEPTED).table("rates").to_owned();
        manager.drop_index(dropped).await
    }
}
