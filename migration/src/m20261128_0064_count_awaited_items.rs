//! Requests say until when their link can be paid, so that those that await payment are counted by an index, whether a link
//! pays them or not. The indexes by which links were counted go.

use sea_orm_migration::{prelude::*, schema::*};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const REQUESTS: &str = "requests";
const LINKS: &str = "secure_payments";

/// The query builder writes no conditions into indexes of SQLite. The state is in them because SQLite would read the row
/// for it.
const AWAITED: [(&str, &str, &str); 2] = [
    ("requests_awaited_idx", "platform_id, link_until, status", ""),
    (
        "requests_awaited_client_idx",
        "platform_id, client_row, link_until, status",
        "AND client_row IS NOT NULL",
    ),
];

const COUNTED: [(&str, &[&str]); 2] = [
    ("secure_payments_platform_idx", &["platform_id", "status", "expires_at"]),
    (
        "secure_payments_client_idx",
        &["platform_id", "client_row", "status", "expires_at"],
    ),
];

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let column = timestamp_with_time_zone_null("link_until");
        let added = Table::alter().table(REQUESTS).add_column(column).to_owned();
        manager.alter_table(added).await?;
        for (name, columns, further) in AWAITED {
            let sql = format!(
                "CREATE INDEX {name} ON {REQUESTS} ({columns}) WHERE status IN ('pending', 'partially_paid') {further}"
            );
            manager.get_connection().execute_unprepared(sql.trim_end()).await?;
        }
        for (name, _) in COUNTED {
            drop_index(manager, name, LINKS).await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for (name, columns) in COUNTED {
            let mut index = Index::create().name(name).table(LINKS).to_owned();
            for column in columns {
                index.col(*column);
            }
            manager.create_index(index).await?;
        }
        for (name, ..) in AWAITED {
            drop_index(manager, name, REQUESTS).await?;
        }
        let dropped = Table::alter().table(REQUESTS).drop_column("link_until").to_owned();
        manager.alter_table(dropped).await
    }
}

async fn drop_index(manager: &SchemaManager<'_>, name: &'static str, table: &'static str) -> Result<(), DbErr> {
    manager
        .drop_index(Index::drop().name(name).table(table).to_owned())
        .await
}
