//! Secure payments, the requests that they pay, what payers say to have sent, and which wallets were told to be refused.

use sea_orm_migration::{prelude::*, schema::*};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const PAYMENTS: &str = "secure_payments";
const ITEMS: &str = "secure_payment_items";
const INTENTS: &str = "secure_payment_intents";
const REFUSALS: &str = "secure_payment_refusals";

/// Indexes: table, name, columns, whether they are unique.
const INDEXES: [(&str, &str, &[&str], bool); 6] = [
    (PAYMENTS, "secure_payments_token_key", &["token"], true),
    (
        PAYMENTS,
        "secure_payments_platform_idx",
        &["platform_id", "status", "expires_at"],
        false,
    ),
    (
        PAYMENTS,
        "secure_payments_client_idx",
        &["client_row", "status", "expires_at"],
        false,
    ),
    (PAYMENTS, "secure_payments_expiry_idx", &["status", "expires_at"], false),
    (
        ITEMS,
        "secure_payment_items_request_idx",
        &["platform_id", "request_row"],
        false,
    ),
    (
        INTENTS,
        "secure_payment_intents_key",
        &["secure_payment_id", "tx_hash"],
        true,
    ),
];

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for table in [payments(), items(), intents(), refusals()] {
            manager.create_table(table).await?;
        }
        for (table, name, columns, is_unique) in INDEXES {
            let mut index = Index::create().name(name).table(table).to_owned();
            for column in columns {
                index.col(*column);
            }
            if is_unique {
                index.unique();
            }
            manager.create_index(index).await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        crate::tables::drop_tables(manager, &[PAYMENTS, ITEMS, INTENTS, REFUSALS]).await
    }
}

fn payments() -> TableCreateStatement {
    Table::create()
        .table(PAYMENTS)
        .col(text("id").primary_key())
        .col(text("token"))
        .col(text("platform_id"))
        .col(text_null("client_row"))
        .col(text_null("client_id"))
        .col(text_null("origin"))
        .col(text("flow"))
        .col(text("kind"))
        .col(text("status"))
        .col(text("network"))
        .col(text_null("destination_wallet"))
        .col(text_null("destination_token"))
        .col(text_null("creator"))
        .col(text_null("reference"))
        .col(text_null("payer_identifier"))
        .col(text_null("recipient_identifier"))
        .col(text_null("redirect_url"))
        .col(text_null("redirect_label"))
        .col(text("access_mode"))
        .col(text_null("access_provider"))
        .col(boolean("hides_until_approved"))
        .col(boolean("hides_payee"))
        .col(json_binary("allowed_payers"))
        .col(timestamp_with_time_zone_null("hinted_at"))
        .col(timestamp_with_time_zone("created_at"))
        .col(timestamp_with_time_zone("expires_at"))
        .col(timestamp_with_time_zone_null("completed_at"))
        .to_owned()
}

fn items() -> TableCreateStatement {
    Table::create()
        .table(ITEMS)
        .col(text("secure_payment_id"))
        .col(integer("position"))
        .col(text("platform_id"))
        .col(text("request_row"))
        .col(text("request_id"))
        .col(integer_null("fee_basis_points"))
        .col(text_null("fee_address"))
        .col(boolean("is_own_fee"))
        .col(integer_null("protocol_basis_points"))
        .col(text_null("protocol_address"))
        .col(text_null("protocol_cap"))
        .primary_key(
            Index::create()
                .name("secure_payment_items_pkey")
                .col("secure_payment_id")
                .col("position"),
        )
        .to_owned()
}

fn intents() -> TableCreateStatement {
    Table::create()
        .table(INTENTS)
        .col(text("id").primary_key())
        .col(text("secure_payment_id"))
        .col(text("platform_id"))
        .col(text("tx_hash"))
        .col(text_null("payer"))
        .col(text_null("payer_eoa"))
        .col(timestamp_with_time_zone("created_at"))
        .to_owned()
}

fn refusals() -> TableCreateStatement {
    Table::create()
        .table(REFUSALS)
        .col(text("secure_payment_id"))
        .col(text("wallet"))
        .col(text("platform_id"))
        .col(big_integer("occasions"))
        .col(timestamp_with_time_zone("told_at"))
        .primary_key(
            Index::create()
                .name("secure_payment_refusals_pkey")
                .col("secure_payment_id")
                .col("wallet"),
        )
        .to_owned()
}
