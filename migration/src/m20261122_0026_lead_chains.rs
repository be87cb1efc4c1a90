//! Of several workers one follows a network at a time, under a term.

use sea_orm_migration::{prelude::*, schema::*};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let leaders = Table::create()
            .table("chain_leaders")
            .col(text("network").primary_key())
            .col(big_integer("term"))
            .col(text_null("holder"))
            .col(timestamp_with_time_zone("lease_until"))
            .to_owned();
        manager.create_table(leaders).await?;
        // Makes the term a part of a key: a commit that shares the key waits for a change of the term and for nothing
        // else, so a renewal of the lease waits for no commit.
        let key = Index::create()
            .name("chain_leaders_term_key")
            .table("chain_leaders")
            .col("network")
            .col("term")
            .unique()
            .to_owned();
        manager.create_index(key).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        crate::tables::drop_tables(manager, &["chain_leaders"]).await
    }
}
