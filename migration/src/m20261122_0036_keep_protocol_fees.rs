//! The service's own fee among what was handed out for a request, and fees that a payment paid to further receivers.

use sea_orm_migration::{prelude::*, schema::*};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for column in [
            integer_null("protocol_basis_points"),
            text_null("protocol_address"),
            text_null("protocol_cap"),
        ] {
            let added = Table::alter().table("handed_out").add_column(column).to_owned();
            manager.alter_table(added).await?;
        }
        let further = Table::alter()
            .table("payments")
            .add_column(text_null("further_fees"))
            .to_owned();
        manager.alter_table(further).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let further = Table::alter().table("payments").drop_column("further_fees").to_owned();
        manager.alter_table(further).await?;
        for column in ["protocol_cap", "protocol_address", "protocol_basis_points"] {
            let dropped = Table::alter().table("handed_out").drop_column(column).to_owned();
            manager.alter_table(dropped).await?;
        }
        Ok(())
    }
}
