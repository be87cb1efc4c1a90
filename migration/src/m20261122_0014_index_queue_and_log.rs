//! The queue by owner, so that a claim finds what waits behind the backlog of another one; and the log by state, so that
//! a page of the few that failed does not read all that arrived.

use sea_orm_migration::prelude::*;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const BY_OWNER: &str = "deliveries_owner_due_idx";
const BY_STATE: &str = "deliveries_state_idx";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let mut by_owner = Index::create().name(BY_OWNER).table("deliveries").to_owned();
        by_owner.col("owner_id").col("next_at");
        by_owner.and_where(Expr::cust("state = 'queued'"));
        manager.create_index(by_owner).await?;
        let mut by_state = Index::create().name(BY_STATE).table("deliveries").to_owned();
        by_state.col("owner_id").col("state").col("id");
        manager.create_index(by_state).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for name in [BY_STATE, BY_OWNER] {
            let index = Index::drop().name(name).table("deliveries").to_owned();
            manager.drop_index(index).await?;
        }
        Ok(())
    }
}
