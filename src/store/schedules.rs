//! Recurring payments and their executions.

use super::{StoreError, columns};
use crate::domain::{
    amount::Amount,
    ids::{ClientRowId, PlatformId, RequestId, RequestRowId, ScheduleId},
    network::Network,
    permit::{Permit, PermitSignature},
    relay::RelayState,
    request::Origin,
    schedule::{AskedAmount, Execution, Schedule, ScheduleStatus},
};
use chrono::{DateTime, Utc};
use entities::{
    relay_transactions::{self, Column as Transaction},
    schedule_executions::{
        ActiveModel as ExecutionRow, Column as ExecutionColumn, Entity as Executions, Model as ExecutionModel,
    },
    schedules::{ActiveModel, Column, Entity, Model},
};
use sea_orm::{
    ColumnTrait, ConnectionTrait, EntityTrait, FromQueryResult, Iterable, QueryFilter, QueryOrder, QueryResult,
    QuerySelect, Select,
    sea_query::{Expr, ExprTrait, Order, Query, SelectStatement, WindowStatement},
};

fn to_row(schedule: &Schedule) -> Result<Model, StoreError> {
    let Schedule { origin, permit, .. } = schedule;
    Ok(Model {
        id: schedule.id.0.clone(),
        platform_id: origin.platform.0.clone(),
        client_row: origin.client.as_ref().map(|client| client.0.clone()),
        client_id: origin.client_id.clone(),
        origin: origin.page.clone(),
        network: schedule.network.id().to_owned(),
        contract: permit.contract.canonical(),
        payer: permit.subscriber.canonical(),
        token: permit.token.canonical(),
        payee: permit.recipient.canonical(),
        fee_address: permit.fee_address.map(|address| address.canonical()),
        amount: permit.amount.to_string(),
        fee: permit.fee.to_string(),
        relayer_fee: permit.relayer_fee.to_string(),
        period_s: i64::from(permit.period_s),
        first_payment_s: i64::from(permit.first_payment_s),
        total_payments: i32::from(permit.total_payments),
        nonce: permit.nonce.to_string(),
        deadline_s: columns::number("deadline_s", permit.deadline_s)?,
        signature: schedule.signature.map(|signature| hex::encode(signature.bytes())),
        status: schedule.status.wire().to_owned(),
        executed: i32::from(schedule.executed),
        failures: columns::number("failures", schedule.failures)?,
        failure_reason: schedule.failure_reason.clone(),
        wake_at: schedule.wake_at,
        last_paid_at: schedule.last_paid_at,
        asked_amount: schedule.asked.amount.to_string(),
        asked_currency: schedule.asked.currency.clone(),
        version: columns::number("version", schedule.version)?,
        created_at: schedule.created_at,
    })
}

fn from_row(row: Model) -> Result<Schedule, StoreError> {
    let network = columns::network(&row.network)?;
    let signature = row.signature.as_deref().map(|text| {
        let parse = |text: &str| PermitSignature::parse(&hex::decode(text).ok()?).ok();
        columns::known("signature", text, parse)
    });
    Ok(Schedule {
        id: ScheduleId(row.id),
        origin: Origin {
            platform: PlatformId(row.platform_id),
            client: row.client_row.map(ClientRowId),
            client_id: row.client_id,
            page: row.origin,
            orchestrator: None,
        },
        network,
        permit: Permit {
            chain_id: network.chain_id(),
            contract: columns::address("contract", &row.contract)?,
            subscriber: columns::address("payer", &row.payer)?,
            token: columns::address("token", &row.token)?,
            recipient: columns::address("payee", &row.payee)?,
            fee_address: columns::address_option("fee_address", row.fee_address.as_deref())?,
            amount: units("amount", &row.amount)?,
            fee: units("fee", &row.fee)?,
            relayer_fee: units("relayer_fee", &row.relayer_fee)?,
            period_s: columns::number("period_s", row.period_s)?,
            first_payment_s: columns::number("first_payment_s", row.first_payment_s)?,
            total_payments: columns::number("total_payments", row.total_payments)?,
            nonce: columns::units("nonce", &row.nonce)?,
            deadline_s: columns::number("deadline_s", row.deadline_s)?,
        },
        asked: AskedAmount {
            amount: columns::known("asked_amount", &row.asked_amount, |text| Amount::parse(text).ok())?,
            currency: row.asked_currency,
        },
        signature: signature.transpose()?,
        status: columns::known("status", &row.status, ScheduleStatus::from_wire)?,
        executed: columns::number("executed", row.executed)?,
        failures: columns::number("failures", row.failures)?,
        failure_reason: row.failure_reason,
        wake_at: row.wake_at,
        last_paid_at: row.last_paid_at,
        version: columns::number("version", row.version)?,
        created_at: row.created_at,
    })
}

/// Reads the decimal digits of an unsigned 128-bit number.
pub(super) fn units(column: &str, text: &str) -> Result<u128, StoreError> {
    columns::known(column, text, |text| {
        u128::try_from(columns::units(column, text).ok()?).ok()
    })
}

fn execution(row: ExecutionModel) -> Result<Execution, StoreError> {
    Ok(Execution {
        schedule: ScheduleId(row.schedule_id),
        platform: PlatformId(row.platform_id),
        number: columns::number("number", row.number)?,
        request: RequestRowId(row.request_row),
        request_id: RequestId(row.request_id),
        failures: columns::number("failures", row.failures)?,
        created_at: row.created_at,
    })
}

/// Adds a schedule.
pub async fn insert(conn: &impl ConnectionTrait, schedule: &Schedule) -> Result<(), StoreError> {
    Entity::insert(ActiveModel::from(to_row(schedule)?))
        .exec_without_returning(conn)
        .await?;
    Ok(())
}

/// Finds a schedule of a platform.
pub async fn find(
    conn: &impl ConnectionTrait,
    platform: &PlatformId,
    id: &ScheduleId,
) -> Result<Option<Schedule>, StoreError> {
    let row = Entity::find_by_id((platform.0.clone(), id.0.clone())).one(conn).await?;
    row.map(from_row).transpose()
}

/// Replaces a schedule that was read; `false` when the schedule has changed since.
pub async fn replace(conn: &impl ConnectionTrait, from: &Schedule, to: &Schedule) -> Result<bool, StoreError> {
    let row = to_row(to)?;
    let version: i64 = columns::number("version", from.version)?;
    let result = Entity::update_many()
        .col_expr(Column::Signature, Expr::value(row.signature))
        .col_expr(Column::Status, Expr::value(row.status))
        .col_expr(Column::Executed, Expr::value(row.executed))
        .col_expr(Column::Failures, Expr::value(row.failures))
        .col_expr(Column::FailureReason, Expr::value(row.failure_reason))
        .col_expr(Column::WakeAt, Expr::value(row.wake_at))
        .col_expr(Column::LastPaidAt, Expr::value(row.last_paid_at))
        .col_expr(Column::Version, Expr::value(version + 1))
        .filter(Column::PlatformId.eq(from.origin.platform.as_str()))
        .filter(Column::Id.eq(from.id.as_str()))
        .filter(Column::Version.eq(version))
        .exec(conn)
        .await?;
    Ok(result.rows_affected == 1)
}

/// Schedules of a network, of any platform, that the relayer has to handle now. First comes the longest due schedule of
/// each platform, then the second longest due of each, and so on.
pub async fn due(
    conn: &impl ConnectionTrait,
    network: Network,
    now: DateTime<Utc>,
    limit: u64,
) -> Result<Vec<Schedule>, StoreError> {
    let rows = conn.query_all(&in_turns(network, now, limit)).await?;
    let read = |row: QueryResult| from_row(Model::from_query_result(&row, "")?);
    rows.into_iter().map(read).collect()
}

fn in_turns(network: Network, now: DateTime<Utc>, limit: u64) -> SelectStatement {
    let in_order = WindowStatement::partition_by(Column::PlatformId)
        .order_by(Column::WakeAt, Order::Asc)
        .order_by(Column::Id, Order::Asc)
        .to_owned();
    let numbered = Query::select()
        .columns(Column::iter())
        .expr_window_as(Expr::cust("ROW_NUMBER()"), in_order, "turn")
        .from(Entity)
        .and_where(Column::Network.eq(network.id()))
        .and_where(Column::WakeAt.lte(now))
        .to_owned();
    Query::select()
        .columns(Column::iter())
        .from_subquery(numbered, "numbered")
        .order_by("turn", Order::Asc)
        .order_by("wake_at", Order::Asc)
        .order_by("id", Order::Asc)
        .limit(limit)
        .to_owned()
}

/// The schedule of a network, of any platform, with the earliest next payment. Only active schedules count whose last
/// attempt did not fail and that have no transaction in flight.
pub async fn oldest(conn: &impl ConnectionTrait, network: Network) -> Result<Option<Schedule>, StoreError> {
    let row = by_next_payment(network).one(conn).await?;
    row.map(from_row).transpose()
}

fn by_next_payment(network: Network) -> Select<Entity> {
    let periods = Expr::col(Column::Executed).mul(Expr::col(Column::PeriodS));
    Entity::find()
        .filter(Column::Network.eq(network.id()))
        .filter(Column::Status.eq(ScheduleStatus::Active.wire()))
        .filter(Column::Failures.eq(0))
        .filter(Expr::exists(in_flight()).not())
        .order_by(Expr::col(Column::FirstPaymentS).add(periods), Order::Asc)
}

/// Transactions of a schedule that are not in a final block.
fn in_flight() -> SelectStatement {
    Query::select()
        .expr(Expr::val(1))
        .from(relay_transactions::Entity)
        .and_where(
            Expr::col((relay_transactions::Entity, Transaction::PlatformId)).equals((Entity, Column::PlatformId)),
        )
        .and_where(Expr::col((relay_transactions::Entity, Transaction::ScheduleId)).equals((Entity, Column::Id)))
        .and_where(Expr::col((relay_transactions::Entity, Transaction::State)).eq(RelayState::Pending.wire()))
        .to_owned()
}

/// Postpones the check of a schedule without changing the schedule.
pub async fn postpone(
    conn: &impl ConnectionTrait,
    schedule: &Schedule,
    until: DateTime<Utc>,
) -> Result<(), StoreError> {
    let version: i64 = columns::number("version", schedule.version)?;
    Entity::update_many()
        .col_expr(Column::WakeAt, Expr::value(until))
        .filter(Column::PlatformId.eq(schedule.origin.platform.as_str()))
        .filter(Column::Id.eq(schedule.id.as_str()))
        .filter(Column::Version.eq(version))
        .exec(conn)
        .await?;
    Ok(())
}

/// Schedules of any platform that have been unsigned since before a time, the oldest first.
pub async fn unsigned_since(
    conn: &impl ConnectionTrait,
    before: DateTime<Utc>,
    limit: u64,
) -> Result<Vec<Schedule>, StoreError> {
    let rows = Entity::find()
        .filter(Column::Status.eq(ScheduleStatus::Pending.wire()))
        .filter(Column::CreatedAt.lt(before))
        .order_by_asc(Column::CreatedAt)
        .limit(limit)
        .all(conn)
        .await?;
    rows.into_iter().map(from_row).collect()
}

/// Adds an execution of a schedule. Errors: an execution with its number exists.
pub async fn insert_execution(conn: &impl ConnectionTrait, execution: &Execution) -> Result<(), StoreError> {
    let row = ExecutionModel {
        schedule_id: execution.schedule.0.clone(),
        number: i32::from(execution.number),
        platform_id: execution.platform.0.clone(),
        request_row: execution.request.0.clone(),
        request_id: execution.request_id.0.clone(),
        failures: columns::number("failures", execution.failures)?,
        created_at: execution.created_at,
    };
    Executions::insert(ExecutionRow::from(row))
        .exec_without_returning(conn)
        .await?;
    Ok(())
}

/// Executions of a schedule, by their numbers.
pub async fn executions(conn: &impl ConnectionTrait, schedule: &Schedule) -> Result<Vec<Execution>, StoreError> {
    let rows = Executions::find()
        .filter(ExecutionColumn::PlatformId.eq(schedule.origin.platform.as_str()))
        .filter(ExecutionColumn::ScheduleId.eq(schedule.id.as_str()))
        .order_by_asc(ExecutionColumn::Number)
        .all(conn)
        .await?;
    rows.into_iter().map(execution).collect()
}

/// One execution of a schedule.
pub async fn find_execution(
    conn: &impl ConnectionTrait,
    schedule: &Schedule,
    number: u8,
) -> Result<Option<Execution>, StoreError> {
    let key = (
        schedule.origin.platform.0.clone(),
        schedule.id.0.clone(),
        i32::from(number),
    );
    let row = Executions::find_by_id(key).one(conn).await?;
    row.map(execution).transpose()
}

/// Counts a failure of an execution.
pub async fn note_failure(conn: &impl ConnectionTrait, failed: &Execution) -> Result<(), StoreError> {
    let failures: i32 = columns::number("failures", failed.failures)?;
    Executions::update_many()
        .col_expr(ExecutionColumn::Failures, Expr::value(failures))
        .filter(ExecutionColumn::PlatformId.eq(failed.platform.as_str()))
        .filter(ExecutionColumn::ScheduleId.eq(failed.schedule.as_str()))
        .filter(ExecutionColumn::Number.eq(i32::from(failed.number)))
        .exec(conn)
        .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::plans::{steps, with_database};
    use sea_orm::QueryTrait;

    #[tokio::test]
    async fn due_schedules_are_found_by_an_index() {
        with_database(async |db| {
            let plan = steps(db, &in_turns(Network::Sepolia, DateTime::UNIX_EPOCH, 10)).await;
            assert!(
                plan.contains("USING INDEX schedules_wake_idx (network=? AND wake_at<?)"),
                "{plan}"
            );
        })
        .await;
    }

    #[tokio::test]
    async fn the_longest_due_schedule_is_read_in_index_order() {
        with_database(async |db| {
            let plan = steps(db, &by_next_payment(Network::Sepolia).into_query()).await;
            assert!(plan.contains("USING INDEX schedules_next_payment_idx"), "{plan}");
            assert!(!plan.contains("TEMP B-TREE"), "{plan}");
        })
        .await;
    }
}
