//! Payments of links with a list or a screening say whether who paid might have; and which accounts were proven to own the
//! wallets that pay links with a list.

use sea_orm_migration::{prelude::*, schema::*};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const PAYMENTS: &str = "payments";
const COLUMN: &str = "payer_access";
const UNKNOWN: &str = "payments_by_unknown_access";
const OWNERS: &str = "secure_payment_owners";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let added = Table::alter().table(PAYMENTS).add_column(text_null(COLUMN)).to_owned();
        manager.alter_table(added).await?;
        let unknown = Index::create()
            .name(UNKNOWN)
            .table(PAYMENTS)
            .col("paid_at")
            .and_where(Expr::col(COLUMN).eq(Expr::cust("'unknown'")))
            .to_owned();
        manager.create_index(unknown).await?;
        let owners = Table::create()
            .table(OWNERS)
            .col(text("platform_id"))
            .col(text("secure_payment_id"))
            .col(text("wallet"))
            .col(text("account"))
            .col(timestamp_with_time_zone("proven_at"))
            .primary_key(
                Index::create()
                    .name("secure_payment_owners_pkey")
                    .col("platform_id")
                    .col("secure_payment_id")
                    .col("wallet")
                    .col("account"),
            )
            .to_owned();
        manager.create_table(owners).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        crate::tables::drop_tables(manager, &[OWNERS]).await?;
        let unknown = Index::drop().name(UNKNOWN).table(PAYMENTS).to_owned();
        manager.drop_index(unknown).await?;
        let dropped = Table::alter().table(PAYMENTS).drop_column(COLUMN).to_owned();
        manager.alter_table(dropped).await
    }
}
