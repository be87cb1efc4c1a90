//! Recurring payments that are signed and have not ended: their number, and the amounts that they will still take from
//! payers.

use super::{StoreError, columns, schedules::units};
use crate::domain::{
    address::Address,
    caps::LiveScheduleCounts,
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

/// Rows of one page of the schedules of a payer.
const TAKING_ROWS: u64 = 500;

/// States of schedules that are signed and have not ended.
const LIVE: [&str; 2] = [ScheduleStatus::Active.wire(), ScheduleStatus::Paused.wire()];

/// How many live schedules a platform has, and how many of them a public client ID created.
pub async fn count(
    conn: &impl ConnectionTrait,
    platform: &PlatformId,
    public_client: Option<&ClientRowId>,
) -> Result<LiveScheduleCounts, StoreError> {
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
    Ok(LiveScheduleCounts {
        of_platform: of_platform.count(conn).await?,
        of_public_client,
    })
}

/// Columns from which the amount is computed that a schedule will still take from its payer.
#[derive(FromQueryResult)]
struct ScheduleDemand {
    id: String,
    amount: String,
    fee: String,
    relayer_fee: String,
    total_payments: i32,
    executed: i32,
}

impl ScheduleDemand {
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

/// The payer, the token and the contract of an allowance.
#[derive(Debug, Clone, Copy)]
pub struct AllowanceParties {
    /// Account whose units are taken.
    pub payer: Address,
    /// Token that is taken.
    pub token: Address,
    /// Contract that takes the token.
    pub contract: Address,
}

/// One page of the schedules that a payer signed and that still take a token through a contract, whichever platform
/// created them.
fn taking(parties: AllowanceParties, now: DateTime<Utc>, after: &str) -> Select<Entity> {
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
        .filter(Column::Payer.eq(parties.payer.canonical()))
        .filter(Column::Token.eq(parties.token.canonical()))
        .filter(Column::Contract.eq(parties.contract.canonical()))
        .filter(Column::Status.is_in(LIVE))
        .filter(Column::DeadlineS.gte(now.timestamp()))
        .filter(Column::Id.gt(after))
        .order_by_asc(Column::Id)
        .limit(TAKING_ROWS)
}

/// Token units that a payer's live schedules, except one, will still take through a contract.
///
/// The schedules of all platforms count, because they share one allowance. Unsigned schedules do not count: a stranger
/// can create one in the name of any payer.
pub async fn still_taken(
    conn: &impl ConnectionTrait,
    parties: AllowanceParties,
    except: &ScheduleId,
    now: DateTime<Utc>,
) -> Result<U256, StoreError> {
    let (mut sum, mut after) = (U256::ZERO, String::new());
    loop {
        let page = taking(parties, now, &after)
            .into_model::<ScheduleDemand>()
            .all(conn)
            .await?;
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
    async fn signed_schedules_of_a_payer_are_found_by_an_index() {
        with_database(async |db| {
            let address = |last| Address::Evm(EvmAddress::with_last_byte(last));
            let parties = AllowanceParties {
                payer: address(1),
                token: address(2),
                contract: address(3),
            };
            let statement = taking(parties, DateTime::UNIX_EPOCH, "").into_query();
            let plan = steps(db, &statement).await;
            assert!(
                plan.contains("USING INDEX schedules_payer_idx (payer=? AND token=? AND contract=? AND status=?)"),
                "{plan}"
            );
        })
        .await;
    }
}
