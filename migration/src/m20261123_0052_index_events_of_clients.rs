//! Events of a client ID are found by an index that begins with their owner, all of them and those of a kind. By the client
//! ID alone, PostgreSQL cannot tell that they are few of the owner's, and reads the owner's instead.

use sea_orm_migration::prelude::*;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const FORMER: &str = "events_client_idx";

/// The query builder writes no conditions into indexes of SQLite.
const OF_CLIENTS: [(&str, &str); 2] = [
    ("events_of_client_idx", "owner_id, client_row, id"),
    ("events_of_client_kind_idx", "owner_id, client_row, kind, id"),
];

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let connection = manager.get_connection();
        for (name, columns) in OF_CLIENTS {
            let index = format!("CREATE INDEX {name} ON events ({columns}) WHERE client_row IS NOT NULL");
            connection.execute_unprepared(&index).await?;
        }
        drop_index(manager, FORMER).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let mut former = Index::create().name(FORMER).table("events").to_owned();
        manager
            .create_index(former.col("client_row").col("id").to_owned())
            .await?;
        for (name, _) in OF_CLIENTS {
            drop_index(manager, name).await?;
        }
        Ok(())
    }
}

async fn drop_index(manager: &SchemaManager<'_>, name: &str) -> Result<(), DbErr> {
    let dropped = Index::drop().name(name).table("events").to_owned();
    manager.drop_index(dropped).await
}
