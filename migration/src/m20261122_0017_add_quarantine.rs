//! What is odd about a payment or a block gets a row, and everything else goes on.

use sea_orm_migration::{prelude::*, schema::*};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.create_table(quarantine()).await?;
        manager
            .create_index(
                index("chain_quarantine_key", &["network", "block_number", "reason", "place"])
                    .unique()
                    .to_owned(),
            )
            .await?;
        manager
            .create_index(index("chain_quarantine_tx_idx", &["network", "tx_hash"]))
            .await?;
        manager
            .create_index(index("chain_quarantine_state_idx", &["state", "settled_at"]))
            .await?;
        manager
            .create_index(index("chain_quarantine_request_idx", &["platform_id", "request_row"]))
            .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        crate::tables::drop_tables(manager, &["chain_quarantine"]).await
    }
}

fn quarantine() -> TableCreateStatement {
    Table::create()
        .table("chain_quarantine")
        .col(text("id").primary_key())
        .col(text("network"))
        .col(big_integer("block_number"))
        .col(text_null("tx_hash"))
        .col(integer_null("position"))
        .col(text("place"))
        .col(text("reason"))
        .col(text("detail"))
        .col(text_null("platform_id"))
        .col(text_null("request_row"))
        .col(text("state"))
        .col(integer("attempts"))
        .col(timestamp_with_time_zone("first_seen"))
        .col(timestamp_with_time_zone("last_seen"))
        .col(timestamp_with_time_zone_null("settled_at"))
        .col(text_null("note"))
        .to_owned()
}

fn index(name: &'static str, columns: &[&'static str]) -> IndexCreateStatement {
    let mut index = Index::create().name(name).table("chain_quarantine").to_owned();
    for column in columns {
        index.col(*column);
    }
    index
}
