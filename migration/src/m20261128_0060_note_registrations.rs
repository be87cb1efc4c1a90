//! First registrations that the partner may have taken are noted before it is asked, so that whoever was registered by one
//! that nobody heard of can be erased. Payers say since when their tenant wants them erased, while money is on its way.

use sea_orm_migration::{prelude::*, schema::*};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const COLUMN: &str = "erasure_wanted_at";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.create_table(registrations()).await?;
        let due = Index::create()
            .name("payer_registrations_ask_idx")
            .table("payer_registrations")
            .col("ask_at")
            .to_owned();
        manager.create_index(due).await?;
        let wanted = Table::alter()
            .table("payers")
            .add_column(timestamp_with_time_zone_null(COLUMN))
            .to_owned();
        manager.alter_table(wanted).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let wanted = Table::alter().table("payers").drop_column(COLUMN).to_owned();
        manager.alter_table(wanted).await?;
        crate::tables::drop_tables(manager, &["payer_registrations"]).await
    }
}

fn registrations() -> TableCreateStatement {
    Table::create()
        .table("payer_registrations")
        .col(text("partner_key"))
        .col(text("platform_id"))
        .col(timestamp_with_time_zone("in_flight_until"))
        .col(timestamp_with_time_zone_null("erasing_at"))
        .col(timestamp_with_time_zone_null("ask_at"))
        .primary_key(Index::create().name("payer_registrations_pkey").col("partner_key"))
        .to_owned()
}
