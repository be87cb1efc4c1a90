//! Payments with keys in bytes, an index for every search, and counts that are kept.
//!
//! The rows of before stay where they are, under another name, and are moved in batches while the service runs: whatever
//! their number, this migration takes a moment.

use sea_orm_migration::{prelude::*, schema::*, sea_orm::DbBackend};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

/// Tables that are made, in their order.
const TABLES: [&str; 4] = ["payments", "payment_parties", "payment_groups", "payment_wallets"];

/// Names on PostgreSQL that go with the tables of before, so that those of the new ones are free.
const RENAMED: [(&str, &str, &str, &str); 3] = [
    ("payments", "former_payments", "payments_pkey", "former_payments_pkey"),
    (
        "payments",
        "former_payments",
        "payments_request_fkey",
        "former_payments_request_fkey",
    ),
    (
        "payment_parties",
        "former_payment_parties",
        "payment_parties_pkey",
        "former_payment_parties_pkey",
    ),
];

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for table in ["payments", "payment_parties"] {
            rename(manager, table, &format!("former_{table}")).await?;
        }
        if manager.get_database_backend() == DbBackend::Postgres {
            for (_, table, from, to) in RENAMED {
                rename_constraint(manager, table, from, to).await?;
            }
        }
        for table in [payments(), parties(), groups(), wallets()] {
            manager.create_table(table).await?;
        }
        for index in indexes() {
            manager.create_index(index).await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let connection = manager.get_connection();
        for statement in moved_back(manager.get_database_backend()) {
            connection.execute_unprepared(&statement).await?;
        }
        crate::tables::drop_tables(manager, &TABLES).await?;
        if manager.get_database_backend() == DbBackend::Postgres {
            for (_, table, to, from) in RENAMED {
                rename_constraint(manager, table, from, to).await?;
            }
        }
        for table in ["payments", "payment_parties"] {
            rename(manager, &format!("former_{table}"), table).await?;
        }
        Ok(())
    }
}

async fn rename(manager: &SchemaManager<'_>, from: &str, to: &str) -> Result<(), DbErr> {
    let renamed = Table::rename().table(from.to_owned(), to.to_owned()).to_owned();
    manager.rename_table(renamed).await
}

async fn rename_constraint(manager: &SchemaManager<'_>, table: &str, from: &str, to: &str) -> Result<(), DbErr> {
    let renamed = format!("ALTER TABLE {table} RENAME CONSTRAINT {from} TO {to}");
    manager.get_connection().execute_unprepared(&renamed).await?;
    Ok(())
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
        .col(blob("tx_hash"))
        .col(integer("position"))
        .col(boolean("counts_payments").default(false))
        .col(big_integer("block_number"))
        .col(blob("block_hash"))
        .col(big_integer("log_index"))
        .col(blob("proxy"))
        .col(blob_null("token"))
        .col(blob("payee"))
        .col(blob_null("payer"))
        .col(blob_null("payer_eoa"))
        .col(text("units"))
        .col(text("event_units"))
        .col(text("fee_units"))
        .col(blob_null("fee_address"))
        .col(text("credited"))
        .col(text_null("fee_shortfall"))
        .col(text("kind"))
        .col(text("invoice_currency"))
        .col(text("payment_currency"))
        .col(text_null("merchant_reference"))
        .col(blob("reference"))
        .col(timestamp_with_time_zone("paid_at"))
        .col(timestamp_with_time_zone("created_at"))
        .col(timestamp_with_time_zone_null("reversed_at"))
        .col(text_null("reversal_reason"))
        .col(boolean("is_told").default(false))
        .col(text_null("schedule_id"))
        .col(text_null("rate"))
        .col(text_null("rate_provider"))
        .col(text_null("further_fees"))
        .col(boolean("is_quoted").default(false))
        .col(big_integer("group_key"))
        .col(big_integer_null("client_group_key"))
        .foreign_key(
            ForeignKey::create()
                .name("payments_request_fkey")
                .from("payments", "request_row")
                .to("requests", "id"),
        )
        .to_owned()
}

/// Read backwards, the key serves the newest payments of a wallet in a group first.
fn parties() -> TableCreateStatement {
    Table::create()
        .table("payment_parties")
        .col(text("platform_id"))
        .col(blob("wallet"))
        .col(big_integer("group_key"))
        .col(boolean("is_payee"))
        .col(timestamp_with_time_zone("paid_at"))
        .col(text("payment_id"))
        .primary_key(
            Index::create()
                .name("payment_parties_pkey")
                .col("platform_id")
                .col("wallet")
                .col("group_key")
                .col("is_payee")
                .col("paid_at")
                .col("payment_id"),
        )
        .to_owned()
}

fn groups() -> TableCreateStatement {
    Table::create()
        .table("payment_groups")
        .col(text("platform_id"))
        .col(text("client_row"))
        .col(text("kind"))
        .col(text("invoice_currency"))
        .col(text("payment_currency"))
        .col(big_integer("group_key"))
        .col(big_integer("payments"))
        .primary_key(
            Index::create()
                .name("payment_groups_pkey")
                .col("platform_id")
                .col("client_row")
                .col("kind")
                .col("invoice_currency")
                .col("payment_currency"),
        )
        .to_owned()
}

fn wallets() -> TableCreateStatement {
    Table::create()
        .table("payment_wallets")
        .col(text("platform_id"))
        .col(blob("wallet"))
        .col(text("client_row"))
        .col(big_integer("group_key"))
        .col(boolean("is_payee"))
        .col(big_integer("payments"))
        .primary_key(
            Index::create()
                .name("payment_wallets_pkey")
                .col("platform_id")
                .col("wallet")
                .col("client_row")
                .col("group_key")
                .col("is_payee"),
        )
        .to_owned()
}

/// Every index costs write rate, so each of them serves a search of its own. Those with a time end in the order of a
/// page, read backwards.
fn indexes() -> Vec<IndexCreateStatement> {
    let by = |name: &'static str, columns: &[&'static str]| {
        let mut index = Index::create().name(name).table("payments").to_owned();
        for column in columns {
            index.col(*column);
        }
        index
    };
    vec![
        // The log index changes when a reorganisation includes a transaction again, the position does not. Beginning with
        // the transaction, it serves the search for one too.
        by(
            "payments_event_key",
            &["tx_hash", "network", "position", "counts_payments"],
        )
        .unique()
        .to_owned(),
        by("payments_by_reference", &["platform_id", "reference"]),
        by("payments_by_request", &["platform_id", "request_id"]),
        by(
            "payments_by_merchant_reference",
            &["platform_id", "merchant_reference", "group_key", "paid_at", "id"],
        )
        .and_where(Expr::col("merchant_reference").is_not_null())
        .to_owned(),
        by(
            "payments_by_client_reference",
            &["platform_id", "merchant_reference", "client_group_key", "paid_at", "id"],
        )
        .and_where(Expr::col("merchant_reference").is_not_null())
        .and_where(Expr::col("client_group_key").is_not_null())
        .to_owned(),
        by("payments_by_group", &["platform_id", "group_key", "paid_at", "id"]),
        by(
            "payments_by_client_group",
            &["platform_id", "client_group_key", "paid_at", "id"],
        )
        .and_where(Expr::col("client_group_key").is_not_null())
        .to_owned(),
        by("payments_by_schedule", &["platform_id", "schedule_id"])
            .and_where(Expr::col("schedule_id").is_not_null())
            .to_owned(),
        by("payments_by_block", &["network", "block_number"]),
    ]
}

/// Statements that write the rows as they were before.
fn moved_back(backend: DbBackend) -> [String; 3] {
    const AS_THEY_ARE: &str = "id, platform_id, client_row, request_row, request_id, network, position, counts_payments, \
        block_number, log_index, units, event_units, fee_units, credited, fee_shortfall, kind, invoice_currency, \
        payment_currency, merchant_reference, paid_at, created_at, reversed_at, reversal_reason, is_told, schedule_id, \
        rate, rate_provider, further_fees, is_quoted";
    let digits = |column: &str| match backend {
        DbBackend::Postgres => format!("encode({column}, 'hex')"),
        _ => format!("lower(hex({column}))"),
    };
    let address = |column: &str| {
        format!(
            "CASE WHEN {column} IS NULL THEN NULL ELSE '0x' || {} END",
            digits(column)
        )
    };
    let hashes = ["tx_hash", "block_hash", "reference"];
    let addresses = ["proxy", "token", "payee", "payer", "payer_eoa", "fee_address"];
    let texts = hashes.map(digits).into_iter().chain(addresses.map(address));
    let texts: Vec<_> = texts.collect();
    [
        format!(
            "INSERT INTO former_payments ({AS_THEY_ARE}, {}, {}) SELECT {AS_THEY_ARE}, {} FROM payments",
            hashes.join(", "),
            addresses.join(", "),
            texts.join(", ")
        ),
        // What is left of payments that were moved.
        "DELETE FROM former_payment_parties WHERE payment_id IN (SELECT id FROM payments)".to_owned(),
        format!(
            "INSERT INTO former_payment_parties (platform_id, wallet, paid_at, payment_id) \
             SELECT DISTINCT platform_id, {}, paid_at, payment_id FROM payment_parties",
            address("wallet")
        ),
    ]
}
