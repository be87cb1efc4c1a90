//! Keys of sealed values.

use crate::tables::{create, drop_tables};
use sea_orm_migration::{prelude::*, schema::*};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

/// They are dropped from the last to the first.
const TABLES: [&str; 1] = ["key_material"];

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        create(manager, [key_material()], &[]).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop_tables(manager, &TABLES).await
    }
}

fn key_material() -> TableCreateStatement {
    Table::create()
        .table("key_material")
        .col(text("name").primary_key())
        .col(text("sealed"))
        .col(timestamp_with_time_zone("created_at"))
        .to_owned()
}
