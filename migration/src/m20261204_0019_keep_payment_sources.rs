//! Where the payer of a payment paid: network, transaction and account. Payments of one network equal their destination.

use sea_orm_migration::{prelude::*, schema::*};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

/// The columns.
const SOURCE: [fn() -> ColumnDef; 3] = [
    || text("source_network").default("").take(),
    || blob("source_tx_hash").default(Vec::<u8>::new()).take(),
    || blob_null("source_payer"),
];

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for column in SOURCE {
            let widened = Table::alter().table("payments").add_column(column()).to_owned();
            manager.alter_table(widened).await?;
        }
        let sql = manager.get_connection();
        sql.execute_unprepared(
            r#"UPDATE "payments" SET "source_network" = "network", "source_tx_hash" = "tx_hash", "source_payer" = "payer""#,
        )
        .await?;
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for column in SOURCE.iter().rev() {
            let narrowed = Table::alter()
                .table("payments")
                .drop_column(column().get_column_name())
                .to_owned();
            manager.alter_table(narrowed).await?;
        }
        Ok(())
    }
}
