//! Devices from which people have signed in to their accounts.

use sea_orm_migration::{prelude::*, schema::*};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let devices = Table::create()
            .table("known_devices")
            .col(text("hash").primary_key())
            .col(text("account_id"))
            .col(timestamp_with_time_zone("last_used_at"))
            .to_owned();
        manager.create_table(devices).await?;
        for (name, columns) in [
            ("known_devices_account_idx", &["account_id", "last_used_at"][..]),
            ("known_devices_used_idx", &["last_used_at"]),
        ] {
            let mut index = Index::create().name(name).table("known_devices").to_owned();
            for column in columns {
                index.col(*column);
            }
            manager.create_index(index).await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        crate::tables::drop_tables(manager, &["known_devices"]).await
    }
}
