//! A payment that left the chain stays and is marked.

use sea_orm_migration::{prelude::*, schema::*, sea_orm::Statement};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let columns = [
            timestamp_with_time_zone_null("reversed_at"),
            text_null("reversal_reason"),
            integer("reversals").default(0).to_owned(),
        ];
        for column in columns {
            let added = Table::alter().table("payments").add_column(column).to_owned();
            manager.alter_table(added).await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        refuse_if_marked(manager).await?;
        for column in ["reversals", "reversal_reason", "reversed_at"] {
            let removed = Table::alter().table("payments").drop_column(column).to_owned();
            manager.alter_table(removed).await?;
        }
        Ok(())
    }
}

/// Without its mark a payment that left the chain would count again, beside the one that took its place.
async fn refuse_if_marked(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let connection = manager.get_connection();
    let count = "SELECT CAST(COUNT(*) AS BIGINT) AS marked FROM payments WHERE reversed_at IS NOT NULL";
    let statement = Statement::from_string(manager.get_database_backend(), count);
    let row = connection.query_one_raw(statement).await?;
    let marked: i64 = row.map(|row| row.try_get("", "marked")).transpose()?.unwrap_or(0);
    if marked > 0 {
        return Err(DbErr::Migration(format!(
            "{marked} payments are marked as reversed, and the schema before has no such mark, so that they would count \
             again: nothing was taken back; go on with this version, or restore a backup of the version before"
        )));
    }
    Ok(())
}
