//! What was seen on each chain, and how far it has been read.

use sea_orm_migration::{prelude::*, schema::*};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const TABLES: [&str; 3] = ["observations", "chain_cursors", "chain_blocks"];

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for table in [chain_cursors(), chain_blocks()] {
            manager.create_table(table).await?;
        }
        create_observations(manager).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        crate::tables::drop_tables(manager, &TABLES).await
    }
}

/// Also what a later migration goes back to.
pub(crate) async fn create_observations(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    manager.create_table(observations()).await?;
    let by = |name: &'static str, column: &'static str| {
        Index::create()
            .name(name)
            .table("observations")
            .col("network")
            .col(column)
            .to_owned()
    };
    manager
        .create_index(by("observations_block_idx", "block_number"))
        .await?;
    manager
        .create_index(by("observations_topic_idx", "reference_topic"))
        .await
}

fn observations() -> TableCreateStatement {
    Table::create()
        .table("observations")
        .col(text("network"))
        .col(text("tx_hash"))
        .col(integer("ordinal"))
        .col(big_integer("block_number"))
        .col(text("block_hash"))
        .col(big_integer("log_index"))
        .col(text("proxy"))
        .col(text("reference_topic"))
        .col(text_null("token"))
        .col(text("payee"))
        .col(text("units"))
        .col(text("fee_units"))
        .col(text_null("fee_address"))
        .col(text_null("invoice_units"))
        .col(text_null("invoice_fee_units"))
        .col(text_null("conversion_currency"))
        .col(big_integer_null("max_rate_timespan_s"))
        .col(text("state"))
        .col(boolean("found_by_audit"))
        .col(timestamp_with_time_zone("seen_at"))
        .primary_key(
            Index::create()
                .name("observations_pkey")
                .col("network")
                .col("tx_hash")
                .col("ordinal"),
        )
        .to_owned()
}

fn chain_cursors() -> TableCreateStatement {
    Table::create()
        .table("chain_cursors")
        .col(text("network").primary_key())
        .col(big_integer("seen_number"))
        .col(text("seen_hash"))
        .col(big_integer("final_number"))
        .col(text("final_hash"))
        .col(text_null("halted_reason"))
        .col(timestamp_with_time_zone("updated_at"))
        .to_owned()
}

fn chain_blocks() -> TableCreateStatement {
    Table::create()
        .table("chain_blocks")
        .col(text("network"))
        .col(big_integer("number"))
        .col(text("hash"))
        .col(text("parent_hash"))
        .col(big_integer("time_s"))
        .primary_key(Index::create().name("chain_blocks_pkey").col("network").col("number"))
        .to_owned()
}
