//! When a recurring request repeats next, and of which request and period one is a repetition.

use sea_orm_migration::{prelude::*, schema::*};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const DUE: &str = "requests_next_period_idx";
const PERIOD: &str = "requests_period_key";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let columns = [
            integer("next_period").default(0).to_owned(),
            timestamp_with_time_zone_null("next_period_at"),
            text_null("parent_row"),
            integer_null("period"),
        ];
        for column in columns {
            let added = Table::alter().table("requests").add_column(column).to_owned();
            manager.alter_table(added).await?;
        }
        let mut due = Index::create().name(DUE).table("requests").to_owned();
        due.col("next_period_at")
            .and_where(Expr::cust("next_period_at IS NOT NULL"));
        manager.create_index(due).await?;
        let mut period = Index::create().name(PERIOD).table("requests").unique().to_owned();
        period.col("parent_row").col("period");
        period.and_where(Expr::cust("parent_row IS NOT NULL"));
        manager.create_index(period).await?;
        // The program finds the next period of what repeats already: its calendar is no SQL.
        let begin = Query::update()
            .table("requests")
            .value("next_period_at", Expr::col("created_at"))
            .and_where(Expr::col("recurrence").is_not_null())
            .and_where(Expr::col("is_recurrence_stopped").eq(false))
            .to_owned();
        manager.execute(begin).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for index in [PERIOD, DUE] {
            let dropped = Index::drop().name(index).table("requests").to_owned();
            manager.drop_index(dropped).await?;
        }
        for column in ["period", "parent_row", "next_period_at", "next_period"] {
            let removed = Table::alter().table("requests").drop_column(column).to_owned();
            manager.alter_table(removed).await?;
        }
        Ok(())
    }
}
