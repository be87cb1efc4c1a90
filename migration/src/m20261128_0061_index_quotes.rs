//! Quotes are found by what the off-ramp partner calls them: it calls no two the same.

use sea_orm_migration::prelude::*;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const CALLED: &str = "off_ramp_quotes_partner_quote_idx";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let index = Index::create()
            .name(CALLED)
            .table("off_ramp_quotes")
            .col("partner_quote")
            .to_owned();
        manager.create_index(index).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let dropped = Index::drop().name(CALLED).table("off_ramp_quotes").to_owned();
        manager.drop_index(dropped).await
    }
}
