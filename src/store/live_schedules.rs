//! Recurring payments that are signed and have not ended: how many there are, and what they still take.

use super::{StoreError, columns, schedules::units};
use crate::domain::{
    address::Address,
    caps::LiveSchedules,
    ids::{ClientRowId, PlatformId, ScheduleId},
    schedule::{ScheduleStatus, remaining_units},
};
use alloy::primitives::U256;
use chrono::{DateTime, Utc};
use entities::schedules::{Column, Entity};
use sea_orm::{
    ColumnTrait, ConnectionTrait, EntityTrait, FromQueryResult, PaginatorTrait, QueryFilter, QueryOrder, QuerySelect,
    Select,
};

/// Rows of one page of what a payer signed.
const TAKING_ROWS: u64 = 500;

/// States of what is signed and has not ended.
const LIVE: [&str; 2] = [ScheduleStatus::Active.wire(), ScheduleStatus::Paused.wire()];

/// How many live schedules a platform has, and how many of them a public client ID made.
pub async fn count(
    conn: &impl ConnectionTrait,
    platform: &PlatformId,
    public_client: Option<&ClientRowId>,
) -> Result<LiveSchedules, StoreError> {
    let of_platform = Entity::find()
        .filter(Column::PlatformId.eq(platform.as_str()))
        .filter(Column::Status.is_in(LIVE));
    let of_public_client = match public_client {
        Some(client) => {
            let own = of_platform.clone().filter(Column::ClientRow.eq(client.as_str()));
            own.count(conn).await?
        }
        None => 0,
    };
    Ok(LiveSchedules {
        of_platform: of_platform.count(conn).await?,
        of_public_client,
    })
}

/// What a schedule still takes.
#[derive(FromQueryResult)]
struct Taking {
    id: String,
    amount: String,
    fee: String,
    relayer_fee: String,
    total_payments: i32,
    executed: i32,
}

impl Taking {
    fn units(&self) -> Result<U256, StoreError> {
        let each = [
            units("amount", &self.amount)?,
            units("fee", &self.fee)?,
            units("relayer_fee", &self.relayer_fee)?,
        ];
        let total = columns::number("total_payments", self.total_payments)?;
        Ok(remaining_units(
            each,
            total,
            columns::number("executed", self.executed)?,
        ))
    }
}

/// One page of the schedules that a payer signed, whoever made them, and that still take a token through a contract.
fn taking((payer, token, contract): (Address, Address, Address), now: DateTime<Utc>, after: &str) -> Select<Entity> {
    Entity::find()
        .select_only()
        .columns([
            Column::Id,
            Column::Amount,
            Column::Fee,
            Column::RelayerFee,
            Column::TotalPayments,
            Column::Executed,
        ])
        .filter(Column::Payer.eq(payer.canonical()))
        .filter(Column::Token.eq(token.canonical()))
        .filter(Column::Contract.eq(contract.canonical()))
        .filter(Column::Status.is_in(LIVE))
        .filter(Column::DeadlineS.gte(now.timestamp()))
        .filter(Column::Id.gt(after))
        .order_by_asc(Column::Id)
        .limit(TAKING_ROWS)
}

/// Units that the live schedules of a payer in a token still take through a contract, but for one schedule.
///
/// They count whoever made them, since they share one allowance. One that is not signed counts for nobody: a stranger can
/// make it in the name of any payer.
pub async fn still_taken(
    conn: &impl ConnectionTrait,
    parties: (Address, Address, Address),
    except: &ScheduleId,
    now: DateTime<Utc>,
) -> Result<U256, StoreError> {
    let (mut sum, mut after) = (U256::ZERO, String::new());
    loop {
        let page = taking(parties, now, &after).into_model::<Taking>().all(conn).await?;
        for row in page.iter().filter(|row| row.id != except.as_str()) {
            sum = sum.saturating_add(row.units()?);
        }
        let is_full = u64::try_from(page.len()).is_ok_and(|rows| rows == TAKING_ROWS);
        let Some(last) = page.last().filter(|_| is_full) else {
            return Ok(sum);
        };
        after.clone_from(&last.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::plans::{steps, with_database};
    use alloy::primitives::Address as EvmAddress;
    use sea_orm::QueryTrait;

    #[tokio::test]
    async fn what_a_payer_signed_is_found_without_reading_what_others_made_in_his_name() {
        with_database(async |db| {
            let parties = [1, 2, 3].map(|last| Address::Evm(EvmAddress::with_last_byte(last)));
            let statement = taking(parties.into(), DateTime::UNIX_EPOCH, "").into_query();
            let plan = steps(db, &statement).await;
            assert!(
                plan.contains("USING INDEX schedules_payer_idx (payer=? AND token=? AND contract=? AND status=?)"),
                "{plan}"
            );
        })
        .await;
    }
}
