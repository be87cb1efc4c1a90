//! Destinations say whether they were set up on their platform: payouts note them there too, and their owners claim them
//! wherever they sign in.

use sea_orm_migration::{prelude::*, schema::*};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const TABLE: &str = "payee_destinations";
const COLUMN: &str = "is_set_up";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let added = Table::alter()
            .table(TABLE)
            .add_column(boolean(COLUMN).default(false))
            .to_owned();
        manager.alter_table(added).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let dropped = Table::alter().table(TABLE).drop_column(COLUMN).to_owned();
        manager.alter_table(dropped).await
    }
}
