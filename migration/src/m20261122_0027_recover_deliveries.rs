//! Rounds of deliveries whose four tries failed, and since when an endpoint takes nothing.

use sea_orm_migration::{prelude::*, schema::*};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const BY_TIME: &str = "deliveries_recovery_idx";
const BY_ENDPOINT: &str = "deliveries_recovery_endpoint_idx";
const RECOVERING: &str = "webhook_endpoints_recovering_idx";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let columns = [
            ("deliveries", integer("recovery_rounds").default(0).to_owned()),
            ("deliveries", timestamp_with_time_zone_null("recover_from")),
            ("deliveries", timestamp_with_time_zone_null("recover_at")),
            ("webhook_endpoints", timestamp_with_time_zone_null("failing_since")),
            ("webhook_endpoints", boolean("is_recovering").default(false).to_owned()),
        ];
        for (table, column) in columns {
            let added = Table::alter().table(table).add_column(column).to_owned();
            manager.alter_table(added).await?;
        }
        let failed = "state = 'failed' AND NOT is_test";
        let mut by_time = Index::create().name(BY_TIME).table("deliveries").to_owned();
        by_time.col("recover_at").and_where(Expr::cust(failed));
        manager.create_index(by_time).await?;
        let mut by_endpoint = Index::create().name(BY_ENDPOINT).table("deliveries").to_owned();
        by_endpoint.col("endpoint_id").col("recover_from");
        by_endpoint.and_where(Expr::cust(format!("{failed} AND recover_at IS NOT NULL")));
        manager.create_index(by_endpoint).await?;
        let mut recovering = Index::create().name(RECOVERING).table("webhook_endpoints").to_owned();
        recovering.col("id").and_where(Expr::cust("is_recovering"));
        manager.create_index(recovering).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for (index, table) in [
            (RECOVERING, "webhook_endpoints"),
            (BY_ENDPOINT, "deliveries"),
            (BY_TIME, "deliveries"),
        ] {
            manager
                .drop_index(Index::drop().name(index).table(table).to_owned())
                .await?;
        }
        for (table, column) in [
            ("webhook_endpoints", "is_recovering"),
            ("webhook_endpoints", "failing_since"),
            ("deliveries", "recover_at"),
            ("deliveries", "recover_from"),
            ("deliveries", "recovery_rounds"),
        ] {
            let removed = Table::alter().table(table).drop_column(column).to_owned();
            manager.alter_table(removed).await?;
        }
        Ok(())
    }
}
