//! Payers say until when a call that hands the partner something of them may be in flight, so that the partner is asked to
//! forget one after it. Quotes of payers who are erased keep none of the partner's ids.

use sea_orm_migration::{prelude::*, schema::*};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const COLUMN: &str = "in_flight_until";

/// What was erased before left them.
const FORGET: &str = "UPDATE off_ramp_quotes SET partner_payer = '', partner_account = '' \
     WHERE payer_id IN (SELECT id FROM payers WHERE erased_at IS NOT NULL)";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let column = timestamp_with_time_zone_null(COLUMN);
        let noted = Table::alter().table("payers").add_column(column).to_owned();
        manager.alter_table(noted).await?;
        manager.get_connection().execute_unprepared(FORGET).await?;
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let noted = Table::alter().table("payers").drop_column(COLUMN).to_owned();
        manager.alter_table(noted).await
    }
}
