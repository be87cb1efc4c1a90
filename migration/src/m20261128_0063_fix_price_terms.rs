//! Requests keep the rates and fees that were fixed when they were made. What was handed out beyond that is a fee of the
//! platform alone, and every row of it binds.

use sea_orm_migration::{prelude::*, schema::*};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let price = Table::alter()
            .table("requests")
            .add_column(json_binary_null("price"))
            .to_owned();
        manager.alter_table(price).await?;
        for (table, column) in [
            ("requests", "has_unkept_answers"),
            ("handed_out", "path"),
            ("handed_out", "max_rate_age_s"),
            ("handed_out", "is_binding"),
            ("handed_out", "protocol_basis_points"),
            ("handed_out", "protocol_address"),
            ("handed_out", "protocol_cap"),
        ] {
            let dropped = Table::alter().table(table).drop_column(column).to_owned();
            manager.alter_table(dropped).await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for (table, column) in [
            ("handed_out", text_null("path")),
            ("handed_out", big_integer_null("max_rate_age_s")),
            ("handed_out", boolean("is_binding").default(false).to_owned()),
            ("handed_out", integer_null("protocol_basis_points")),
            ("handed_out", text_null("protocol_address")),
            ("handed_out", text_null("protocol_cap")),
            ("requests", boolean("has_unkept_answers").default(true).to_owned()),
        ] {
            let added = Table::alter().table(table).add_column(column).to_owned();
            manager.alter_table(added).await?;
        }
        let price = Table::alter().table("requests").drop_column("price").to_owned();
        manager.alter_table(price).await
    }
}
