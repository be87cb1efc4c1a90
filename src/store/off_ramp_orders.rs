//! Orders that pay out the payments of requests to bank accounts, one for each request.

use super::{StoreError, columns};
use crate::domain::{
    ids::{BankAccountId, OffRampOrderId, OffRampQuoteId, PayerId, PlatformId, RequestRowId},
    off_ramp::{FiatOrder, OrderState, PayoutOrder},
};
use chrono::{DateTime, Utc};
use entities::{
    off_ramp_orders::{ActiveModel, Column, Entity, Model},
    requests,
};
use sea_orm::{
    ActiveValue::Set, ColumnTrait, Condition, ConnectionTrait, EntityTrait, PaginatorTrait, QueryFilter, QueryOrder,
    QuerySelect, sea_query::Expr,
};

fn to_row(order: &FiatOrder) -> Result<Model, StoreError> {
    let asked = order.asked.as_ref();
    let transactions = asked.map(|asked| serde_json::to_string(&asked.transactions));
    Ok(Model {
        id: order.id.0.clone(),
        platform_id: order.platform.0.clone(),
        request_row: order.request.0.clone(),
        quote_id: order.quote.0.clone(),
        payer_id: order.payer.0.clone(),
        account_id: order.account.0.clone(),
        asked_units: asked.map(|asked| asked.units.to_string()),
        asked_transactions: transactions
            .transpose()
            .map_err(|error| StoreError::Broken(error.into()))?,
        asked_payments: asked
            .map(|asked| columns::number("asked_payments", asked.payments))
            .transpose()?,
        partner_order: order.partner_id.clone(),
        state: order.state.wire().to_owned(),
        version: columns::number("version", order.version)?,
        word: order.word.clone(),
        failures: columns::number("failures", order.failures)?,
        next_at: order.next_at,
        changed_at: order.changed_at,
        created_at: order.created_at,
    })
}

fn from_row(row: Model) -> Result<FiatOrder, StoreError> {
    let asked = match (row.asked_units, row.asked_transactions, row.asked_payments) {
        (Some(units), Some(transactions), Some(payments)) => Some(PayoutOrder {
            units: columns::units("asked_units", &units)?,
            payments: columns::number("asked_payments", payments)?,
            transactions: serde_json::from_str(&transactions)
                .map_err(|_| columns::broken("asked_transactions", &transactions))?,
        }),
        // In all other states the partner has not been called, so no payout was requested.
        _ => None,
    };
    Ok(FiatOrder {
        id: OffRampOrderId(row.id),
        platform: PlatformId(row.platform_id),
        request: RequestRowId(row.request_row),
        quote: OffRampQuoteId(row.quote_id),
        payer: PayerId(row.payer_id),
        account: BankAccountId(row.account_id),
        asked,
        partner_id: row.partner_order,
        state: columns::known("state", &row.state, OrderState::from_wire)?,
        version: columns::number("version", row.version)?,
        word: row.word,
        failures: columns::number("failures", row.failures)?,
        next_at: row.next_at,
        changed_at: row.changed_at,
        created_at: row.created_at,
    })
}

/// Rows in one of these states.
fn is_in(states: &[OrderState]) -> Expr {
    Column::State.is_in(states.iter().map(|state| state.wire()))
}

/// Adds an order.
pub async fn insert(conn: &impl ConnectionTrait, order: &FiatOrder) -> Result<(), StoreError> {
    Entity::insert(ActiveModel::from(to_row(order)?))
        .exec_without_returning(conn)
        .await?;
    Ok(())
}

/// The order of a request.
pub async fn of_request(
    conn: &impl ConnectionTrait,
    platform: &PlatformId,
    request: &RequestRowId,
) -> Result<Option<FiatOrder>, StoreError> {
    let key = (platform.0.clone(), request.0.clone());
    let row = Entity::find_by_id(key).one(conn).await?;
    row.map(from_row).transpose()
}

/// The order with this order id of the partner.
pub async fn by_partner_id(conn: &impl ConnectionTrait, id: &str) -> Result<Option<FiatOrder>, StoreError> {
    let row = Entity::find().filter(Column::PartnerOrder.eq(id)).one(conn).await?;
    row.map(from_row).transpose()
}

/// Writes an order if its state, version and quote are unchanged since it was read; returns whether they were. The
/// quote is compared too, because an order that was stopped and became due again in the meantime pays out other
/// payments.
pub async fn replace(conn: &impl ConnectionTrait, before: &FiatOrder, after: &FiatOrder) -> Result<bool, StoreError> {
    let row = to_row(after)?;
    let version: i64 = columns::number("version", before.version)?;
    let change = ActiveModel {
        quote_id: Set(row.quote_id),
        payer_id: Set(row.payer_id),
        account_id: Set(row.account_id),
        asked_units: Set(row.asked_units),
        asked_transactions: Set(row.asked_transactions),
        asked_payments: Set(row.asked_payments),
        partner_order: Set(row.partner_order),
        state: Set(row.state),
        version: Set(row.version),
        word: Set(row.word),
        failures: Set(row.failures),
        next_at: Set(row.next_at),
        changed_at: Set(row.changed_at),
        ..Default::default()
    };
    let result = Entity::update_many()
        .set(change)
        .filter(Column::PlatformId.eq(before.platform.as_str()))
        .filter(Column::RequestRow.eq(before.request.as_str()))
        .filter(Column::State.eq(before.state.wire()))
        .filter(Column::Version.eq(version))
        .filter(Column::QuoteId.eq(before.quote.as_str()))
        .exec(conn)
        .await?;
    Ok(result.rows_affected == 1)
}

/// Claims orders whose partner query is due, at most `limit`; no other caller gets these orders until `until`. An order
/// with a due time after `latest` is due too.
pub async fn claim_due(
    conn: &impl ConnectionTrait,
    now: DateTime<Utc>,
    latest: DateTime<Utc>,
    until: DateTime<Utc>,
    limit: u64,
) -> Result<Vec<FiatOrder>, StoreError> {
    // An instance whose clock was ahead may have set a due time too far in the future.
    let is_due = Condition::any()
        .add(Column::NextAt.lte(now))
        .add(Column::NextAt.gt(latest));
    let due = Entity::find()
        .filter(is_due.clone())
        .order_by_asc(Column::NextAt)
        .limit(limit)
        .all(conn)
        .await?;
    let mut claimed = Vec::with_capacity(due.len());
    for row in due {
        let taken = Entity::update_many()
            .col_expr(Column::NextAt, Expr::value(until))
            .filter(Column::PlatformId.eq(row.platform_id.as_str()))
            .filter(Column::RequestRow.eq(row.request_row.as_str()))
            .filter(Column::State.eq(row.state.as_str()))
            .filter(is_due.clone())
            .exec(conn)
            .await?;
        if taken.rows_affected == 1 {
            claimed.push(FiatOrder {
                next_at: Some(until),
                ..from_row(row)?
            });
        }
    }
    Ok(claimed)
}

/// An order as the operator sees it.
#[derive(Debug, Clone)]
pub struct OrderSummary {
    /// The order.
    pub order: FiatOrder,
    /// Public id of its request.
    pub request_id: String,
}

/// Orders, the oldest first: open orders, or every order with `all`. With `silent_since`, only orders that last changed
/// before that time.
pub async fn list(
    conn: &impl ConnectionTrait,
    all: bool,
    silent_since: Option<DateTime<Utc>>,
    limit: u64,
) -> Result<Vec<OrderSummary>, StoreError> {
    let open = Condition::all()
        .add_option((!all).then(|| is_in(&OrderState::OPEN)))
        .add_option(silent_since.map(|since| Column::ChangedAt.lt(since)));
    let rows = Entity::find()
        .filter(open)
        .order_by_asc(Column::CreatedAt)
        .limit(limit)
        .all(conn)
        .await?;
    let mut listed = Vec::with_capacity(rows.len());
    for row in rows {
        let key = (row.platform_id.clone(), row.request_row.clone());
        let request_id: Option<String> = requests::Entity::find_by_id(key)
            .select_only()
            .column(requests::Column::RequestId)
            .into_tuple()
            .one(conn)
            .await?;
        listed.push(OrderSummary {
            request_id: request_id.unwrap_or_default(),
            order: from_row(row)?,
        });
    }
    Ok(listed)
}

/// Number of open orders, and the creation time of the oldest.
pub async fn measure(conn: &impl ConnectionTrait) -> Result<(u64, Option<DateTime<Utc>>), StoreError> {
    let open = Entity::find().filter(is_in(&OrderState::OPEN));
    let count = open.clone().count(conn).await?;
    let oldest = open
        .select_only()
        .column(Column::CreatedAt)
        .order_by_asc(Column::CreatedAt)
        .limit(1)
        .into_tuple()
        .one(conn)
        .await?;
    Ok((count, oldest))
}
