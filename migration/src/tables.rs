//! What migrations do with tables in the same way.

use sea_orm_migration::prelude::*;

/// Drops tables, the last created one first, so that no foreign key is left dangling.
pub(crate) async fn drop_tables(manager: &SchemaManager<'_>, created: &[&'static str]) -> Result<(), DbErr> {
    for table in created.iter().rev() {
        manager.drop_table(Table::drop().table(*table).to_owned()).await?;
    }
    Ok(())
}
