//! To which bank account a request is paid out, from its first quote on; whose a deposit address is; and what the partner
//! was asked to pay out by an order.

use sea_orm_migration::{prelude::*, schema::*};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const ASKED: [&str; 3] = ["asked_units", "asked_transactions", "asked_payments"];

/// What was handed out before belongs to whoever got it first, and what was ordered before was ordered for what is there.
const KNOWN: [&str; 3] = [
    "INSERT INTO off_ramp_bindings (platform_id, request_row, payer_id, account_id, created_at) \
     SELECT platform_id, request_row, payer_id, account_id, created_at FROM off_ramp_quotes AS quoted \
     WHERE id = (SELECT MIN(id) FROM off_ramp_quotes AS known \
     WHERE known.platform_id = quoted.platform_id AND known.request_row = quoted.request_row)",
    "INSERT INTO off_ramp_addresses (network, deposit_address, platform_id, payer_id, account_id) \
     SELECT network, deposit_address, platform_id, payer_id, account_id FROM off_ramp_quotes AS quoted \
     WHERE id = (SELECT MIN(id) FROM off_ramp_quotes AS known \
     WHERE known.network = quoted.network AND known.deposit_address = quoted.deposit_address)",
    "UPDATE off_ramp_orders SET asked_payments = \
     (SELECT payment_count FROM requests WHERE requests.id = off_ramp_orders.request_row) \
     WHERE state NOT IN ('due', 'stopped')",
];

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.create_table(bindings()).await?;
        manager.create_table(addresses()).await?;
        let of_payer = Index::create()
            .name("off_ramp_bindings_payer")
            .table("off_ramp_bindings")
            .col("platform_id")
            .col("payer_id")
            .to_owned();
        manager.create_index(of_payer).await?;
        // SQLite alters one column at a time.
        for column in [text_null(ASKED[0]), text_null(ASKED[1]), integer_null(ASKED[2])] {
            let asked = Table::alter().table("off_ramp_orders").add_column(column).to_owned();
            manager.alter_table(asked).await?;
        }
        for statement in KNOWN {
            manager.get_connection().execute_unprepared(statement).await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for column in ASKED.into_iter().rev() {
            let asked = Table::alter().table("off_ramp_orders").drop_column(column).to_owned();
            manager.alter_table(asked).await?;
        }
        crate::tables::drop_tables(manager, &["off_ramp_bindings", "off_ramp_addresses"]).await
    }
}

/// One for each request: two calls at the same time bind it once.
fn bindings() -> TableCreateStatement {
    Table::create()
        .table("off_ramp_bindings")
        .col(text("platform_id"))
        .col(text("request_row"))
        .col(text("payer_id"))
        .col(text("account_id"))
        .col(timestamp_with_time_zone("created_at"))
        .col(timestamp_with_time_zone_null("closed_at"))
        .col(integer_null("closed_payments"))
        .col(text_null("closed_note"))
        .primary_key(
            Index::create()
                .name("off_ramp_bindings_pkey")
                .col("platform_id")
                .col("request_row"),
        )
        .to_owned()
}

/// One account for each address.
fn addresses() -> TableCreateStatement {
    Table::create()
        .table("off_ramp_addresses")
        .col(text("network"))
        .col(text("deposit_address"))
        .col(text("platform_id"))
        .col(text("payer_id"))
        .col(text("account_id"))
        .primary_key(
            Index::create()
                .name("off_ramp_addresses_pkey")
                .col("network")
                .col("deposit_address"),
        )
        .to_owned()
}
