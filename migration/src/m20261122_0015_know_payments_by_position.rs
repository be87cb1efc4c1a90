//! Payments are known by their position among all events of their transaction; what is odd, and what is filled in
//! beside new blocks, has rows of its own.

use sea_orm_migration::{prelude::*, schema::*};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const IDENTITY: &str = "payments_identity_key";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let connection = manager.get_connection();
        drop_index(manager, IDENTITY).await?;
        rename(manager, "ordinal", "position").await?;
        let counted = boolean("counts_payments").default(false).to_owned();
        add(manager, "payments", counted).await?;
        // Recorded before this migration: their position counts the payments of the transaction, until its receipt is
        // met again.
        connection
            .execute_unprepared("UPDATE payments SET counts_payments = true")
            .await?;
        manager
            .create_index(identity(&["network", "tx_hash", "position", "counts_payments"]))
            .await?;
        manager.create_index(by_block()).await?;
        crate::tables::drop_tables(manager, &["observations"]).await?;
        notes(manager).await?;
        add(manager, "chain_cursors", text_null("finality")).await?;
        add(
            manager,
            "chain_cursors",
            boolean("may_rewind").default(false).to_owned(),
        )
        .await?;
        manager.create_table(backlogs()).await?;
        manager.create_index(open_requests()).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop_index_of(manager, "requests_open_idx", "requests").await?;
        crate::tables::drop_tables(manager, &["chain_backlogs", "observations"]).await?;
        crate::m20261121_0003_create_chain::create_observations(manager).await?;
        remove(manager, "chain_cursors", "may_rewind").await?;
        remove(manager, "chain_cursors", "finality").await?;
        drop_index(manager, "payments_block_idx").await?;
        drop_index(manager, IDENTITY).await?;
        remove(manager, "payments", "counts_payments").await?;
        rename(manager, "position", "ordinal").await?;
        manager.create_index(identity(&["network", "tx_hash", "ordinal"])).await
    }
}

async fn drop_index(manager: &SchemaManager<'_>, name: &'static str) -> Result<(), DbErr> {
    drop_index_of(manager, name, "payments").await
}

async fn drop_index_of(manager: &SchemaManager<'_>, name: &'static str, table: &'static str) -> Result<(), DbErr> {
    manager
        .drop_index(Index::drop().name(name).table(table).to_owned())
        .await
}

async fn rename(manager: &SchemaManager<'_>, from: &'static str, to: &'static str) -> Result<(), DbErr> {
    let renamed = Table::alter().table("payments").rename_column(from, to).to_owned();
    manager.alter_table(renamed).await
}

async fn add(manager: &SchemaManager<'_>, table: &'static str, column: ColumnDef) -> Result<(), DbErr> {
    manager
        .alter_table(Table::alter().table(table).add_column(column).to_owned())
        .await
}

async fn remove(manager: &SchemaManager<'_>, table: &'static str, column: &'static str) -> Result<(), DbErr> {
    manager
        .alter_table(Table::alter().table(table).drop_column(column).to_owned())
        .await
}

fn identity(columns: &[&'static str]) -> IndexCreateStatement {
    let mut index = Index::create().name(IDENTITY).table("payments").unique().to_owned();
    for column in columns {
        index.col(*column);
    }
    index
}

/// For what a reorganisation may have dropped, and for the comparison with the chain.
fn by_block() -> IndexCreateStatement {
    Index::create()
        .name("payments_block_idx")
        .table("payments")
        .col("network")
        .col("block_number")
        .to_owned()
}

/// Tells whether anything is awaited on a network.
fn open_requests() -> IndexCreateStatement {
    Index::create()
        .name("requests_open_idx")
        .table("requests")
        .col("network")
        .col("created_at")
        .and_where(Expr::col("status").is_in(["pending", "partially_paid"]))
        .to_owned()
}

/// Payments that were seen and are not final: only those of known requests.
async fn notes(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let table = Table::create()
        .table("observations")
        .col(text("network"))
        .col(text("tx_hash"))
        .col(integer("position"))
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
        .col(text_null("max_rate_timespan_s"))
        .col(timestamp_with_time_zone("seen_at"))
        .primary_key(
            Index::create()
                .name("observations_pkey")
                .col("network")
                .col("tx_hash")
                .col("position"),
        )
        .to_owned();
    manager.create_table(table).await?;
    for (name, column) in [
        ("observations_block_idx", "block_number"),
        ("observations_topic_idx", "reference_topic"),
    ] {
        let index = Index::create()
            .name(name)
            .table("observations")
            .col("network")
            .col(column)
            .to_owned();
        manager.create_index(index).await?;
    }
    Ok(())
}

/// Ranges that are filled in beside new blocks.
fn backlogs() -> TableCreateStatement {
    Table::create()
        .table("chain_backlogs")
        .col(text("network"))
        .col(big_integer("next_block"))
        .col(big_integer("end_block"))
        .col(text("reason"))
        .col(integer("failures"))
        .col(timestamp_with_time_zone("due_at"))
        .col(timestamp_with_time_zone("created_at"))
        .primary_key(
            Index::create()
                .name("chain_backlogs_pkey")
                .col("network")
                .col("end_block")
                .col("reason"),
        )
        .to_owned()
}
