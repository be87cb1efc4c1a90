//! Requests, the payments that settle them and the wallets that took part.

use sea_orm_migration::{prelude::*, schema::*};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const TABLES: [&str; 3] = ["requests", "payments", "payment_parties"];

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for table in [requests(), payments(), payment_parties()] {
            manager.create_table(table).await?;
        }
        for index in request_indexes().into_iter().chain(payment_indexes()) {
            manager.create_index(index).await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        crate::tables::drop_tables(manager, &TABLES).await
    }
}

fn requests() -> TableCreateStatement {
    Table::create()
        .table("requests")
        .col(text("id").primary_key())
        .col(text("platform_id"))
        .col(text_null("client_row"))
        .col(text_null("client_id"))
        .col(text_null("origin"))
        .col(text("request_id"))
        .col(text("salt"))
        .col(text("reference"))
        .col(text("reference_topic"))
        .col(text("kind"))
        .col(text("status"))
        .col(text("network"))
        .col(text("payee"))
        .col(text_null("payer"))
        .col(text("amount"))
        .col(text("invoice_currency"))
        .col(text("payment_currency"))
        .col(text_null("token"))
        .col(text("expected"))
        .col(text("credited"))
        .col(integer("payment_count"))
        .col(text_null("tx_hash"))
        .col(text_null("merchant_reference"))
        .col(json_binary_null("customer"))
        .col(json_binary_null("recurrence"))
        .col(boolean("is_recurrence_stopped"))
        .col(text_null("original_request_id"))
        .col(text_null("original_request_reference"))
        .col(boolean("is_crypto_to_fiat"))
        .col(boolean("is_listening"))
        .col(timestamp_with_time_zone("created_at"))
        .col(timestamp_with_time_zone("updated_at"))
        .col(timestamp_with_time_zone_null("paid_at"))
        .to_owned()
}

fn request_indexes() -> Vec<IndexCreateStatement> {
    vec![
        Index::create()
            .name("requests_request_id_key")
            .table("requests")
            .col("request_id")
            .unique()
            .to_owned(),
        // Eight bytes of reference can collide: two requests that the chain could not tell apart must not both exist.
        Index::create()
            .name("requests_reference_key")
            .table("requests")
            .col("network")
            .col("reference")
            .col("payee")
            .unique()
            .to_owned(),
        Index::create()
            .name("requests_created_idx")
            .table("requests")
            .col("platform_id")
            .col(("created_at", IndexOrder::Desc))
            .col(("id", IndexOrder::Desc))
            .to_owned(),
        Index::create()
            .name("requests_payee_idx")
            .table("requests")
            .col("platform_id")
            .col("payee")
            // Read backwards, the index is in the order of a page.
            .col("created_at")
            .col("id")
            .to_owned(),
        Index::create()
            .name("requests_merchant_reference_idx")
            .table("requests")
            .col("platform_id")
            .col("merchant_reference")
            .and_where(Expr::col("merchant_reference").is_not_null())
            .to_owned(),
        Index::create()
            .name("requests_topic_idx")
            .table("requests")
            .col("network")
            .col("reference_topic")
            .to_owned(),
    ]
}

fn payments() -> TableCreateStatement {
    Table::create()
        .table("payments")
        .col(text("id").primary_key())
        .col(text("platform_id"))
        .col(text_null("client_row"))
        .col(text("request_row"))
        .col(text("request_id"))
        .col(text("network"))
        .col(text("tx_hash"))
        .col(integer("ordinal"))
        .col(big_integer("block_number"))
        .col(text("block_hash"))
        .col(big_integer("log_index"))
        .col(text("proxy"))
        .col(text_null("token"))
        .col(text("payee"))
        .col(text_null("payer"))
        .col(text_null("payer_eoa"))
        .col(text("units"))
        .col(text("event_units"))
        .col(text("fee_units"))
        .col(text_null("fee_address"))
        .col(text("credited"))
        .col(text("kind"))
        .col(text("invoice_currency"))
        .col(text("payment_currency"))
        .col(text_null("merchant_reference"))
        .col(text("reference"))
        .col(timestamp_with_time_zone("paid_at"))
        .col(timestamp_with_time_zone("created_at"))
        .foreign_key(
            ForeignKey::create()
                .name("payments_request_fkey")
                .from("payments", "request_row")
                .to("requests", "id"),
        )
        .to_owned()
}

/// Every index costs write rate, so each of them serves a search of its own; wallets have a table instead.
fn payment_indexes() -> Vec<IndexCreateStatement> {
    let by = |name: &'static str, column: &'static str| {
        Index::create()
            .name(name)
            .table("payments")
            .col("platform_id")
            .col(column)
            .to_owned()
    };
    vec![
        // The log index changes when a reorganisation includes a transaction again, the ordinal does not.
        Index::create()
            .name("payments_identity_key")
            .table("payments")
            .col("network")
            .col("tx_hash")
            .col("ordinal")
            .unique()
            .to_owned(),
        Index::create()
            .name("payments_paid_idx")
            .table("payments")
            .col("platform_id")
            .col(("paid_at", IndexOrder::Desc))
            .col(("id", IndexOrder::Desc))
            .to_owned(),
        by("payments_tx_hash_idx", "tx_hash"),
        by("payments_reference_idx", "reference"),
        by("payments_request_id_idx", "request_id"),
        by("payments_merchant_reference_idx", "merchant_reference")
            .and_where(Expr::col("merchant_reference").is_not_null())
            .to_owned(),
    ]
}

fn payment_parties() -> TableCreateStatement {
    Table::create()
        .table("payment_parties")
        .col(text("platform_id"))
        .col(text("wallet"))
        .col(timestamp_with_time_zone("paid_at"))
        .col(text("payment_id"))
        // Read backwards, the key serves a wallet's newest payments first.
        .primary_key(
            Index::create()
                .name("payment_parties_pkey")
                .col("platform_id")
                .col("wallet")
                .col("paid_at")
                .col("payment_id"),
        )
        .to_owned()
}
