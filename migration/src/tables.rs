//! What migrations do with tables in the same way.

use sea_orm_migration::prelude::*;

/// A migration that creates tables.
pub(crate) struct Creation {
    /// Path of its module, whose last part is its name.
    pub(crate) path: &'static str,
    /// They are dropped from the last to the first.
    pub(crate) tables: &'static [fn() -> TableCreateStatement],
    /// SQL that both databases read.
    pub(crate) indexes: &'static [&'static str],
}

impl MigrationName for Creation {
    fn name(&self) -> &str {
        self.path.rsplit("::").next().unwrap_or(self.path)
    }
}

#[async_trait::async_trait]
impl MigrationTrait for Creation {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        create(manager, self.tables, self.indexes).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop_tables(manager, self.tables).await
    }
}

/// Creates tables, and then their indexes, in SQL that both databases read. Of two indexes that serve alike, SQLite takes the
/// one that was made last.
pub(crate) async fn create(
    manager: &SchemaManager<'_>,
    tables: &[fn() -> TableCreateStatement],
    indexes: &[&str],
) -> Result<(), DbErr> {
    for table in tables {
        manager.create_table(table()).await?;
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
pub(crate) async fn drop_tables(
    manager: &SchemaManager<'_>,
    created: &[fn() -> TableCreateStatement],
) -> Result<(), DbErr> {
    for table in created.iter().rev().map(|table| table()) {
        let name = table.get_table_name().cloned();
        let name = name.ok_or_else(|| DbErr::Migration("a table has no name".to_owned()))?;
        manager.drop_table(Table::drop().table(name).to_owned()).await?;
    }
    Ok(())
}
