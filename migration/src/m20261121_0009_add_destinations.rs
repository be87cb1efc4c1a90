//! Payee destinations, the data that wallets sign about them, and the destination that a client ID is bound to.

use sea_orm_migration::{prelude::*, schema::*};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const TABLES: [&str; 2] = ["payee_destinations", "destination_nonces"];

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let destinations = Table::create()
            .table("payee_destinations")
            .col(text("id").primary_key())
            .col(text("platform_id"))
            .col(text("wallet"))
            .col(text("network"))
            .col(text("token"))
            .col(text_null("policy_mode"))
            .col(text_null("policy_provider"))
            .col(boolean("hides_until_approved"))
            .col(boolean("hides_payee"))
            .col(boolean("is_claimed"))
            .col(boolean("is_active"))
            .col(timestamp_with_time_zone("created_at"))
            .col(timestamp_with_time_zone("updated_at"))
            .to_owned();
        let nonces = Table::create()
            .table("destination_nonces")
            .col(text("nonce").primary_key())
            .col(text("platform_id"))
            .col(text("client_row"))
            .col(text("action"))
            .col(text("wallet"))
            .col(text("network"))
            .col(text("token"))
            .col(timestamp_with_time_zone("expires_at"))
            .col(timestamp_with_time_zone_null("used_at"))
            .to_owned();
        for table in [destinations, nonces] {
            manager.create_table(table).await?;
        }
        for index in indexes() {
            manager.create_index(index).await?;
        }
        let binding = Table::alter()
            .table("client_ids")
            .add_column(text_null("payee_destination_id"))
            .to_owned();
        manager.alter_table(binding).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let binding = Table::alter()
            .table("client_ids")
            .drop_column("payee_destination_id")
            .to_owned();
        manager.alter_table(binding).await?;
        crate::tables::drop_tables(manager, &TABLES).await
    }
}

fn indexes() -> Vec<IndexCreateStatement> {
    vec![
        Index::create()
            .name("payee_destinations_key")
            .table("payee_destinations")
            .col("platform_id")
            .col("wallet")
            .col("network")
            .col("token")
            .unique()
            .to_owned(),
        // A wallet has at most one destination in use, whoever asks at the same time.
        Index::create()
            .name("payee_destinations_active_key")
            .table("payee_destinations")
            .col("platform_id")
            .col("wallet")
            .unique()
            .and_where(Expr::cust("is_active"))
            .to_owned(),
        Index::create()
            .name("payee_destinations_wallet_idx")
            .table("payee_destinations")
            .col("wallet")
            .to_owned(),
        Index::create()
            .name("destination_nonces_expires_idx")
            .table("destination_nonces")
            .col("expires_at")
            .to_owned(),
    ]
}
