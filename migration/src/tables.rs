//! Steps that migrations have in common.

use sea_orm_migration::prelude::*;

/// A migration that creates tables.
pub(crate) struct Creation {
    /// Module path of the migration; its last part is the migration's name.
    pub(crate) path: &'static str,
    /// Functions that describe the tables, in the order of creation; the tables are dropped in reverse order.
    pub(crate) tables: &'static [fn() -> TableCreateStatement],
    /// SQL that works on both databases.
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

/// Creates tables, and then their indexes, in SQL that works on both databases. Of two equally useful indexes, SQLite
/// uses the one that was created last.
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

/// Drops tables in reverse order of creation, so that no foreign key refers to a dropped table.
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
