//! Quotes of the off-ramp partner that were handed out, with their addresses; orders by which payments reach bank accounts;
//! which requests have one.

use sea_orm_migration::{prelude::*, schema::*};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

/// The query builder writes no conditions into indexes of SQLite.
const INDEXES: [&str; 6] = [
    "CREATE INDEX off_ramp_quotes_request ON off_ramp_quotes (platform_id, request_row)",
    "CREATE INDEX off_ramp_quotes_payer ON off_ramp_quotes (platform_id, payer_id)",
    "CREATE INDEX off_ramp_quotes_address ON off_ramp_quotes (network, deposit_address)",
    "CREATE UNIQUE INDEX off_ramp_orders_partner_key ON off_ramp_orders (partner_order) WHERE partner_order IS NOT NULL",
    "CREATE INDEX off_ramp_orders_due ON off_ramp_orders (next_at) WHERE next_at IS NOT NULL",
    "CREATE INDEX off_ramp_orders_payer ON off_ramp_orders (platform_id, payer_id)",
];

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.create_table(quotes()).await?;
        manager.create_table(orders()).await?;
        for index in INDEXES {
            manager.get_connection().execute_unprepared(index).await?;
        }
        let ordered = Table::alter()
            .table("requests")
            .add_column(boolean("is_ordered").default(false))
            .to_owned();
        manager.alter_table(ordered).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let ordered = Table::alter().table("requests").drop_column("is_ordered").to_owned();
        manager.alter_table(ordered).await?;
        crate::tables::drop_tables(manager, &["off_ramp_quotes", "off_ramp_orders"]).await
    }
}

fn quotes() -> TableCreateStatement {
    Table::create()
        .table("off_ramp_quotes")
        .col(text("id").primary_key())
        .col(text("platform_id"))
        .col(text("request_row"))
        .col(text("payer_id"))
        .col(text("account_id"))
        .col(text("partner_payer"))
        .col(text("partner_account"))
        .col(text("partner_quote"))
        .col(text("network"))
        .col(text("deposit_address"))
        .col(text("units"))
        .col(text("settlement_units"))
        .col(text_null("rate"))
        .col(text_null("rate_provider"))
        .col(text("fee_units"))
        .col(text("pays_out"))
        .col(text("currency"))
        .col(timestamp_with_time_zone("ends_at"))
        .col(timestamp_with_time_zone("created_at"))
        .index(
            Index::create()
                .name("off_ramp_quotes_partner_key")
                .unique()
                .col("platform_id")
                .col("request_row")
                .col("partner_quote"),
        )
        .to_owned()
}

/// One for each request: the key is that of the request.
fn orders() -> TableCreateStatement {
    Table::create()
        .table("off_ramp_orders")
        .col(text("id"))
        .col(text("platform_id"))
        .col(text("request_row"))
        .col(text("quote_id"))
        .col(text("payer_id"))
        .col(text("account_id"))
        .col(text_null("partner_order"))
        .col(text("state"))
        .col(big_integer("version").default(0))
        .col(text_null("word"))
        .col(integer("failures").default(0))
        .col(timestamp_with_time_zone_null("next_at"))
        .col(timestamp_with_time_zone("changed_at"))
        .col(timestamp_with_time_zone("created_at"))
        .primary_key(
            Index::create()
                .name("off_ramp_orders_pkey")
                .col("platform_id")
                .col("request_row"),
        )
        .to_owned()
}
