//! Payers with their bank accounts, and the keys under which all that names them is sealed.

use sea_orm_migration::{prelude::*, schema::*};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.create_table(payers()).await?;
        manager.create_table(payer_keys()).await?;
        manager.create_table(bank_accounts()).await?;
        for index in indexes() {
            manager.create_index(index).await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        crate::tables::drop_tables(manager, &["payers", "payer_keys", "bank_accounts"]).await
    }
}

fn payers() -> TableCreateStatement {
    Table::create()
        .table("payers")
        .col(text("id").primary_key())
        .col(text("platform_id"))
        .col(text("user_id"))
        .col(text_null("client_user_hash"))
        .col(text_null("partner_hash"))
        .col(text_null("details"))
        .col(text("kyc"))
        .col(text("agreement"))
        .col(big_integer("version"))
        .col(big_integer("partner_version"))
        .col(timestamp_with_time_zone("created_at"))
        .col(timestamp_with_time_zone("changed_at"))
        .col(timestamp_with_time_zone_null("ask_at"))
        .col(timestamp_with_time_zone_null("erasing_at"))
        .col(timestamp_with_time_zone_null("erased_at"))
        .to_owned()
}

/// Apart from the payers, so that what a rotation rewrites is small and erasure removes a row.
fn payer_keys() -> TableCreateStatement {
    Table::create()
        .table("payer_keys")
        .col(text("payer_id").primary_key())
        .col(text("platform_id"))
        .col(text("data_key"))
        .to_owned()
}

fn bank_accounts() -> TableCreateStatement {
    Table::create()
        .table("bank_accounts")
        .col(text("id").primary_key())
        .col(text("platform_id"))
        .col(text("payer_id"))
        .col(text("payment_detail_id"))
        .col(text_null("partner_hash"))
        .col(text_null("content_hash"))
        .col(text_null("details"))
        .col(text("status"))
        .col(text_null("told"))
        .col(big_integer("version"))
        .col(big_integer("partner_version"))
        .col(timestamp_with_time_zone("created_at"))
        .col(timestamp_with_time_zone("changed_at"))
        .col(timestamp_with_time_zone_null("ask_at"))
        .to_owned()
}

fn indexes() -> Vec<IndexCreateStatement> {
    let unique = |name: &str, table: &'static str, columns: &[&'static str]| {
        let mut index = Index::create();
        index.name(name).table(table).unique();
        for column in columns {
            index.col(*column);
        }
        index.to_owned()
    };
    let plain = |name: &str, table: &'static str, columns: &[&'static str]| {
        let mut index = Index::create();
        index.name(name).table(table);
        for column in columns {
            index.col(*column);
        }
        index.to_owned()
    };
    vec![
        unique("payers_client_user_key", "payers", &["platform_id", "client_user_hash"]),
        unique("payers_partner_key", "payers", &["partner_hash"]),
        plain("payers_ask_idx", "payers", &["ask_at"]),
        unique("bank_accounts_detail_key", "bank_accounts", &["payment_detail_id"]),
        unique("bank_accounts_partner_key", "bank_accounts", &["partner_hash"]),
        unique("bank_accounts_content_key", "bank_accounts", &["content_hash"]),
        plain("bank_accounts_payer_idx", "bank_accounts", &["payer_id", "id"]),
        plain("bank_accounts_ask_idx", "bank_accounts", &["ask_at"]),
    ]
}
