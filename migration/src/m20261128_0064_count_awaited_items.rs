//! Requests say until when their link can be paid, and with which public client ID they were made, so that those that await
//! payment are counted by an index, whether a link pays them or not: those of each public client ID, and those that were made
//! with none. The indexes by which links were counted go.

use sea_orm_migration::{prelude::*, schema::*};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const REQUESTS: &str = "requests";
const LINKS: &str = "secure_payments";

const AWAITED: &str = "requests_awaited_idx";

/// The query builder writes no conditions into indexes of SQLite. The state is in it because SQLite would read the row for
/// it.
const AWAITED_COLUMNS: &str = "platform_id, public_client, link_until, created_at, status";

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
        for column in [
            timestamp_with_time_zone_null("link_until"),
            text("public_client").default("").to_owned(),
        ] {
            let added = Table::alter().table(REQUESTS).add_column(column).to_owned();
            manager.alter_table(added).await?;
        }
        let sql = format!(
            "CREATE INDEX {AWAITED} ON {REQUESTS} ({AWAITED_COLUMNS}) WHERE status IN ('pending', 'partially_paid')"
        );
        manager.get_connection().execute_unprepared(&sql).await?;
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
        drop_index(manager, AWAITED, REQUESTS).await?;
        for column in ["public_client", "link_until"] {
            let dropped = Table::alter().table(REQUESTS).drop_column(column).to_owned();
            manager.alter_table(dropped).await?;
        }
        Ok(())
    }
}

async fn drop_index(manager: &SchemaManager<'_>, name: &'static str, table: &'static str) -> Result<(), DbErr> {
    manager
        .drop_index(Index::drop().name(name).table(table).to_owned())
        .await
}
