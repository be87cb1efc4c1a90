//! What migrations do with tables in the same way.

use sea_orm_migration::prelude::*;

/// Creates tables, and then their indexes, in SQL that both databases read. Of two indexes that serve alike, SQLite takes the
/// one that was made last.
pub(crate) async fn create(
    manager: &SchemaManager<'_>,
    tables: impl IntoIterator<Item = TableCreateStatement>,
    indexes: &[&str],
) -> Result<(), DbErr> {
    for table in tables {
        manager.create_table(table).await?;
    }
    for index in indexes {
        manager.get_connection().execute_unprepared(index).await?;
    }
    Ok(())
}

/// A key of several columns, in their order.
pub(crate) fn key(name: &'static str, columns: &'static str) -> IndexCreateStatement {
    let mut key = Index::create().name(name).to_owned();
    for column in columns.split(", ") {
        key.col(column);
    }
    key
}

/// Drops tables, the last created one first, so that no foreign key is left dangling.
pub(crate) async fn drop_tables(manager: &SchemaManager<'_>, created: &[&'static str]) -> Result<(), DbErr> {
    for table in created.iter().rev() {
        manager.drop_table(Table::drop().table(*table).to_owned()).await?;
    }
    Ok(())
}
