//! Tenants, their credentials and the answers kept for idempotency keys.

use sea_orm_migration::{prelude::*, schema::*};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const TABLES: [&str; 4] = ["platforms", "api_keys", "client_ids", "idempotency_keys"];

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let platforms = Table::create()
            .table("platforms")
            .col(text("id").primary_key())
            .col(text("name"))
            .col(timestamp_with_time_zone("created_at"))
            .to_owned();
        let api_keys = Table::create()
            .table("api_keys")
            .col(text("id").primary_key())
            .col(text("platform_id"))
            .col(text("hash"))
            .col(text("hint"))
            .col(text_null("label"))
            .col(timestamp_with_time_zone("created_at"))
            .col(timestamp_with_time_zone_null("revoked_at"))
            .col(timestamp_with_time_zone_null("last_used_at"))
            .to_owned();
        let client_ids = Table::create()
            .table("client_ids")
            .col(text("id").primary_key())
            .col(text("platform_id"))
            .col(text("client_id"))
            .col(text("label"))
            .col(json_binary("allowed_domains"))
            .col(text("status"))
            .col(text_null("fee_percentage"))
            .col(text_null("fee_address"))
            .col(text_null("operator_wallet"))
            .col(big_integer_null("default_pre_approval_expiry_s"))
            .col(big_integer_null("default_authorization_expiry_s"))
            .col(timestamp_with_time_zone("created_at"))
            .col(timestamp_with_time_zone("updated_at"))
            .col(timestamp_with_time_zone_null("last_used_at"))
            .to_owned();
        let idempotency_keys = Table::create()
            .table("idempotency_keys")
            .col(text("platform_id"))
            .col(text("scope"))
            .col(text("key"))
            .col(text("body_hash"))
            .col(integer_null("status"))
            .col(text_null("response"))
            .col(timestamp_with_time_zone("created_at"))
            .primary_key(
                Index::create()
                    .name("idempotency_keys_pkey")
                    .col("platform_id")
                    .col("scope")
                    .col("key"),
            )
            .to_owned();
        for table in [platforms, api_keys, client_ids, idempotency_keys] {
            manager.create_table(table).await?;
        }
        let indexes = [
            Index::create()
                .name("api_keys_hash_key")
                .table("api_keys")
                .col("hash")
                .unique()
                .to_owned(),
            Index::create()
                .name("api_keys_platform_idx")
                .table("api_keys")
                .col("platform_id")
                .to_owned(),
            Index::create()
                .name("client_ids_client_id_key")
                .table("client_ids")
                .col("client_id")
                .unique()
                .to_owned(),
            Index::create()
                .name("client_ids_platform_idx")
                .table("client_ids")
                .col("platform_id")
                .to_owned(),
            Index::create()
                .name("idempotency_keys_created_idx")
                .table("idempotency_keys")
                .col("created_at")
                .to_owned(),
        ];
        for index in indexes {
            manager.create_index(index).await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        crate::tables::drop_tables(manager, &TABLES).await
    }
}
