//! Recurring payments, what executes them, and which requests and payments are theirs.

use sea_orm_migration::{prelude::*, schema::*};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const TABLES: [&str; 4] = ["schedules", "schedule_executions", "relay_transactions", "relay_bids"];

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.create_table(schedules()).await?;
        manager.create_table(executions()).await?;
        manager.create_table(transactions()).await?;
        manager.create_table(bids()).await?;
        for (table, name, columns) in [
            ("schedules", "schedules_wake_idx", &["network", "wake_at"][..]),
            ("schedules", "schedules_payer_idx", &["payer", "token", "contract"]),
            (
                "relay_transactions",
                "relay_transactions_state_idx",
                &["network", "relayer", "state", "nonce"],
            ),
        ] {
            let mut index = Index::create().name(name).table(table).to_owned();
            for column in columns {
                index.col(*column);
            }
            manager.create_index(index).await?;
        }
        for table in ["requests", "payments"] {
            let column = text_null("schedule_id");
            let added = Table::alter().table(table).add_column(column).to_owned();
            manager.alter_table(added).await?;
        }
        let of_schedule = Index::create()
            .name("payments_schedule_idx")
            .table("payments")
            .col("platform_id")
            .col("schedule_id")
            .cond_where(Expr::col("schedule_id").is_not_null())
            .to_owned();
        manager.create_index(of_schedule).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let of_schedule = Index::drop().name("payments_schedule_idx").table("payments").to_owned();
        manager.drop_index(of_schedule).await?;
        for table in ["payments", "requests"] {
            let removed = Table::alter().table(table).drop_column("schedule_id").to_owned();
            manager.alter_table(removed).await?;
        }
        crate::tables::drop_tables(manager, &TABLES).await
    }
}

fn schedules() -> TableCreateStatement {
    Table::create()
        .table("schedules")
        .col(text("id").primary_key())
        .col(text("platform_id"))
        .col(text_null("client_row"))
        .col(text_null("client_id"))
        .col(text_null("origin"))
        .col(text("network"))
        .col(text("contract"))
        .col(text("payer"))
        .col(text("token"))
        .col(text("payee"))
        .col(text_null("fee_address"))
        .col(text("amount"))
        .col(text("fee"))
        .col(text("relayer_fee"))
        .col(big_integer("period_s"))
        .col(big_integer("first_payment_s"))
        .col(integer("total_payments"))
        .col(text("nonce"))
        .col(big_integer("deadline_s"))
        .col(text_null("signature"))
        .col(text("status"))
        .col(integer("executed"))
        .col(integer("failures"))
        .col(text_null("failure_reason"))
        .col(timestamp_with_time_zone_null("wake_at"))
        .col(timestamp_with_time_zone_null("last_paid_at"))
        .col(big_integer("version"))
        .col(timestamp_with_time_zone("created_at"))
        .to_owned()
}

fn executions() -> TableCreateStatement {
    Table::create()
        .table("schedule_executions")
        .col(text("schedule_id"))
        .col(integer("number"))
        .col(text("platform_id"))
        .col(text("request_row"))
        .col(text("request_id"))
        .col(integer("failures"))
        .col(timestamp_with_time_zone("created_at"))
        .primary_key(
            Index::create()
                .name("schedule_executions_pkey")
                .col("schedule_id")
                .col("number"),
        )
        .to_owned()
}

fn transactions() -> TableCreateStatement {
    Table::create()
        .table("relay_transactions")
        .col(text("network"))
        .col(text("relayer"))
        .col(big_integer("nonce"))
        .col(text("platform_id"))
        .col(text("schedule_id"))
        .col(integer("number"))
        .col(text("to_address"))
        .col(text("calldata"))
        .col(big_integer("gas_limit"))
        .col(text("state"))
        .col(timestamp_with_time_zone("created_at"))
        .primary_key(
            Index::create()
                .name("relay_transactions_pkey")
                .col("network")
                .col("relayer")
                .col("nonce"),
        )
        .to_owned()
}

fn bids() -> TableCreateStatement {
    Table::create()
        .table("relay_bids")
        .col(text("network"))
        .col(text("relayer"))
        .col(big_integer("nonce"))
        .col(integer("bid"))
        .col(text("max_fee"))
        .col(text("tip"))
        .col(text("tx_hash"))
        .col(text("raw"))
        .col(timestamp_with_time_zone("signed_at"))
        .primary_key(
            Index::create()
                .name("relay_bids_pkey")
                .col("network")
                .col("relayer")
                .col("nonce")
                .col("bid"),
        )
        .to_owned()
}
