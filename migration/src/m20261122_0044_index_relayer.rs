//! What was signed for a payment of a schedule, and the schedule whose next payment comes first, are found by an index.

use sea_orm_migration::prelude::*;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const OF_PAYMENT: &str = "relay_transactions_payment_idx";
const NEXT: &str = "schedules_next_payment_idx";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let mut of_payment = Index::create().name(OF_PAYMENT).table("relay_transactions").to_owned();
        of_payment.col("schedule_id").col("number");
        manager.create_index(of_payment).await?;
        // The query builder writes no expressions into indexes of SQLite.
        let next = format!(
            "CREATE INDEX {NEXT} ON schedules (network, status, failures, (first_payment_s + (executed * period_s)))"
        );
        manager.get_connection().execute_unprepared(&next).await?;
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for (table, name) in [("schedules", NEXT), ("relay_transactions", OF_PAYMENT)] {
            let dropped = Index::drop().name(name).table(table).to_owned();
            manager.drop_index(dropped).await?;
        }
        Ok(())
    }
}
