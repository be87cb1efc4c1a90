//! Sessions are found by the account or the wallet that signed in, which lists and ends them.

use sea_orm_migration::prelude::*;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const TABLE: &str = "sessions";

/// Names of the indexes, and the column behind the platform.
const INDEXES: [(&str, &str); 2] = [
    ("sessions_account_idx", "account_id"),
    ("sessions_wallet_idx", "wallet"),
];

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for (name, column) in INDEXES {
            let index = Index::create()
                .name(name)
                .table(TABLE)
                .col("platform_id")
                .col(column)
                .to_owned();
            manager.create_index(index).await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for (name, _) in INDEXES {
            manager
                .drop_index(Index::drop().name(name).table(TABLE).to_owned())
                .await?;
        }
        Ok(())
    }
}
