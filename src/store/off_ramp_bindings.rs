//! The bank account that receives the payout of a request. It is the account of the first quote of the request, and
//! never changes, because the order of a request pays one account.

use super::{StoreError, columns};
use crate::domain::{
    address::Address,
    ids::{BankAccountId, PayerId, PlatformId, RequestRowId},
    network::Network,
    oddity::QuarantineState,
    off_ramp::{OrderState, PaidOutTo},
    request::Request,
};
use chrono::{DateTime, Utc};
use entities::{
    chain_blocks, chain_quarantine, observations, off_ramp_addresses,
    off_ramp_bindings::{ActiveModel, Column, Entity, Model},
    off_ramp_orders, off_ramp_quotes, requests,
};
use sea_orm::{
    ColumnTrait, Condition, ConnectionTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect,
    sea_query::{Expr, ExprTrait, Func, OnConflict, Query, SelectStatement},
};

fn key(request: &Request) -> (String, String) {
    (request.origin.platform.0.clone(), request.row.0.clone())
}

/// The account that a request is paid out to; `None` before its first quote.
pub async fn of_request(conn: &impl ConnectionTrait, request: &Request) -> Result<Option<PaidOutTo>, StoreError> {
    let row = Entity::find_by_id(key(request)).one(conn).await?;
    Ok(row.map(|row| PaidOutTo {
        payer: PayerId(row.payer_id),
        account: BankAccountId(row.account_id),
    }))
}

/// Binds a request to an account, unless the request is already bound; returns whether the request is bound to this
/// account.
pub async fn bind(
    conn: &impl ConnectionTrait,
    request: &Request,
    to: &PaidOutTo,
    now: DateTime<Utc>,
) -> Result<bool, StoreError> {
    let (platform_id, request_row) = key(request);
    let row = Model {
        platform_id,
        request_row,
        payer_id: to.payer.0.clone(),
        account_id: to.account.0.clone(),
        created_at: now,
        closed_at: None,
        closed_payments: None,
        closed_note: None,
    };
    let known = OnConflict::columns([Column::PlatformId, Column::RequestRow])
        .do_nothing()
        .to_owned();
    Entity::insert(ActiveModel::from(row))
        .on_conflict(known)
        .exec_without_returning(conn)
        .await?;
    Ok(of_request(conn, request).await?.as_ref() == Some(to))
}

/// Records that a deposit address belongs to an account, unless the address already belongs to one; returns whether it
/// belongs to this account.
pub async fn claim(
    conn: &impl ConnectionTrait,
    network: Network,
    address: Address,
    request: &Request,
    to: &PaidOutTo,
) -> Result<bool, StoreError> {
    use off_ramp_addresses::{ActiveModel, Column, Entity, Model};
    let row = Model {
        network: network.id().to_owned(),
        deposit_address: address.canonical(),
        platform_id: request.origin.platform.0.clone(),
        payer_id: to.payer.0.clone(),
        account_id: to.account.0.clone(),
    };
    let known = OnConflict::columns([Column::Network, Column::DepositAddress])
        .do_nothing()
        .to_owned();
    Entity::insert(ActiveModel::from(row.clone()))
        .on_conflict(known)
        .exec_without_returning(conn)
        .await?;
    let found = Entity::find_by_id((row.network.clone(), row.deposit_address.clone()))
        .one(conn)
        .await?;
    Ok(found == Some(row))
}

fn of_binding(column: Column) -> Expr {
    Expr::col((Entity, column))
}

/// Whether money that arrived in addition to the paid-out amount counts as unsettled.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Excess {
    /// The excess counts as unsettled.
    Counts,
    /// The excess is ignored: anyone can send money to a known address.
    LeftOut,
}

/// Bindings of requests with money that no ended order covers: partial payments, payments of cancelled requests, and
/// overpayments. Requests that the operator closed are excluded until more money arrives.
fn is_unsettled(excess: Excess) -> Condition {
    use off_ramp_orders::Column as Order;
    use requests::Column as Paid;
    let of_request = |column: Paid| Expr::col((requests::Entity, column));
    let of_order = |column: Order| Expr::col((off_ramp_orders::Entity, column));
    let over = OrderState::ALL
        .into_iter()
        .filter(|state| state.is_asked() && !state.is_open());
    let paid_out = Query::select()
        .expr(Expr::val(1))
        .from(off_ramp_orders::Entity)
        .and_where(of_order(Order::PlatformId).eq(of_binding(Column::PlatformId)))
        .and_where(of_order(Order::RequestRow).eq(of_binding(Column::RequestRow)))
        .and_where(of_order(Order::State).is_in(over.map(OrderState::wire)))
        .and_where_option(
            (excess == Excess::Counts).then(|| of_order(Order::AskedPayments).gte(of_request(Paid::PaymentCount))),
        )
        .take();
    let closed = Func::coalesce([of_binding(Column::ClosedPayments), Expr::val(0)]);
    let unsettled = Query::select()
        .expr(Expr::val(1))
        .from(requests::Entity)
        .and_where(of_request(Paid::PlatformId).eq(of_binding(Column::PlatformId)))
        .and_where(of_request(Paid::Id).eq(of_binding(Column::RequestRow)))
        .and_where(of_request(Paid::PaymentCount).gt(Expr::from(closed)))
        .and_where_option((excess == Excess::LeftOut).then(|| Expr::expr(of_binding(Column::ClosedPayments)).is_null()))
        .and_where(Expr::exists(paid_out).not())
        .take();
    Condition::all().add(Expr::exists(unsettled))
}

/// Whether money of a payer is or may be in flight. That is so if a quote may be in use, a payment was seen or
/// quarantined, a partial payment has arrived, or an order is open. The caller must have locked the payer. Flows that
/// issue quotes or credit payments also lock the payer before they write.
pub async fn is_awaited(
    conn: &impl ConnectionTrait,
    platform: &PlatformId,
    payer: &PayerId,
    now: DateTime<Utc>,
) -> Result<bool, StoreError> {
    use chain_quarantine::Column as Odd;
    use observations::Column as Seen;
    use off_ramp_orders::Column as Order;
    use requests::Column as Paid;
    let any = |table: &'static str| Query::select().expr(Expr::val(1)).from(table).limit(1).take();
    let bound = || {
        Query::select()
            .column(Column::RequestRow)
            .from(Entity)
            .and_where(Column::PlatformId.eq(platform.as_str()))
            .and_where(Column::PayerId.eq(payer.as_str()))
            .take()
    };
    let open = any("off_ramp_orders")
        .and_where(Order::PlatformId.eq(platform.as_str()))
        .and_where(Order::PayerId.eq(payer.as_str()))
        .and_where(Order::State.is_in(OrderState::OPEN.map(OrderState::wire)))
        .take();
    let unsettled = any("off_ramp_bindings")
        .and_where(Column::PlatformId.eq(platform.as_str()))
        .and_where(Column::PayerId.eq(payer.as_str()))
        .cond_where(is_unsettled(Excess::LeftOut))
        .take();
    let references = Query::select()
        .column(Paid::ReferenceTopic)
        .from(requests::Entity)
        .and_where(Paid::PlatformId.eq(platform.as_str()))
        .and_where(Paid::Id.in_subquery(bound()))
        .take();
    let seen = any("observations")
        .and_where(Seen::ReferenceTopic.in_subquery(references))
        .take();
    let waiting = QuarantineState::ALL.into_iter().filter(|state| state.is_open());
    let set_aside = any("chain_quarantine")
        .and_where(Odd::PlatformId.eq(platform.as_str()))
        .and_where(Odd::State.is_in(waiting.map(QuarantineState::wire)))
        .and_where(Odd::RequestRow.in_subquery(bound()))
        .take();
    for statement in [open, unsettled, seen, set_aside] {
        if is_anything(conn, &statement).await? {
            return Ok(true);
        }
    }
    may_be_paying(conn, platform, payer, now).await
}

/// Whether a payment under a quote of a payer may be in flight. That is so if a quote has not expired, or if its chain
/// has not been read past its expiry: a payment that was sent in time may not have been reported yet.
async fn may_be_paying(
    conn: &impl ConnectionTrait,
    platform: &PlatformId,
    payer: &PayerId,
    now: DateTime<Utc>,
) -> Result<bool, StoreError> {
    use chain_blocks::Column as Block;
    use off_ramp_quotes::Column as Quoted;
    let ends: Vec<(String, DateTime<Utc>)> = off_ramp_quotes::Entity::find()
        .select_only()
        .column(Quoted::Network)
        .column_as(Quoted::EndsAt.max(), "last_end")
        .filter(Quoted::PlatformId.eq(platform.as_str()))
        .filter(Quoted::PayerId.eq(payer.as_str()))
        .group_by(Quoted::Network)
        .into_tuple()
        .all(conn)
        .await?;
    for (network, last_end) in ends {
        let read_until: Option<i64> = chain_blocks::Entity::find()
            .select_only()
            .column(Block::TimeS)
            .filter(Block::Network.eq(network))
            .order_by_desc(Block::Number)
            .limit(1)
            .into_tuple()
            .one(conn)
            .await?;
        if last_end > now || read_until.is_none_or(|read_until| read_until <= last_end.timestamp()) {
            return Ok(true);
        }
    }
    Ok(false)
}

async fn is_anything(conn: &impl ConnectionTrait, statement: &SelectStatement) -> Result<bool, StoreError> {
    Ok(conn.query_one(statement).await?.is_some())
}

/// Rows of requests with money that no ended order covers, the oldest first.
pub async fn unsettled(conn: &impl ConnectionTrait, limit: u64) -> Result<Vec<(PlatformId, RequestRowId)>, StoreError> {
    let rows: Vec<(String, String)> = Entity::find()
        .select_only()
        .columns([Column::PlatformId, Column::RequestRow])
        .filter(is_unsettled(Excess::Counts))
        .order_by_asc(Column::CreatedAt)
        .order_by_asc(Column::RequestRow)
        .limit(limit)
        .into_tuple()
        .all(conn)
        .await?;
    let owned = |(platform, row)| (PlatformId(platform), RequestRowId(row));
    Ok(rows.into_iter().map(owned).collect())
}

/// Records that the operator settled the money of a request by other means, and why.
pub async fn close(
    conn: &impl ConnectionTrait,
    request: &Request,
    note: &str,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let payments: i32 = columns::number("payment_count", request.ledger.payment_count)?;
    Entity::update_many()
        .col_expr(Column::ClosedAt, Expr::value(now))
        .col_expr(Column::ClosedPayments, Expr::value(payments))
        .col_expr(Column::ClosedNote, Expr::value(note))
        .filter(Column::PlatformId.eq(request.origin.platform.as_str()))
        .filter(Column::RequestRow.eq(request.row.as_str()))
        .exec(conn)
        .await?;
    Ok(())
}
