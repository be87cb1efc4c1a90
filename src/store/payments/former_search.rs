//! Searches of payments that a version before wrote, as that version made them, until all are moved. There were no links
//! then, so none of these payments is hidden by one.

use super::{
    filter::{Begin, FoundPayment, PaymentFilter, Window},
    former::converted,
    record::{from_row, summary},
};
use crate::{
    domain::{address::Address, ids::PaymentId, search::PaymentPosition},
    store::{Scope, Sealing, StoreError, columns, requests},
};
use chrono::{DateTime, Utc};
use entities::{
    former_payment_parties, former_payment_parties::Column as Party, former_payments, former_payments::Column,
    requests as request_rows,
};
use sea_orm::{
    ColumnTrait, EntityTrait, Order, QueryFilter,
    sea_query::{Expr, ExprTrait, Query, SelectStatement},
};

/// Where a part of the matches stands, newest first.
pub(super) async fn positions(
    conn: &impl Sealing,
    scope: &Scope,
    filter: &PaymentFilter,
    window: &Window,
) -> Result<Vec<PaymentPosition>, StoreError> {
    let (mut page, order) = matching(scope, filter);
    match &window.begin {
        Begin::Row(offset) => page.offset(*offset),
        Begin::After(last) => {
            let place = [Expr::val(last.paid_at), Expr::val(last.id.as_str())];
            page.and_where(Expr::tuple(order.clone()).lt(Expr::tuple(place)))
        }
    };
    page.clear_selects();
    let [paid_at, id] = order.clone();
    page.expr_as(paid_at, "paid_at").expr_as(id, "id");
    for column in order {
        page.order_by_expr(column, Order::Desc);
    }
    page.limit(window.limit);
    let rows = conn.query_all(&page).await?.into_iter();
    let position = rows.map(|row| {
        let paid_at: DateTime<Utc> = row.try_get("", "paid_at")?;
        let id = PaymentId(row.try_get("", "id")?);
        Ok(PaymentPosition { paid_at, id })
    });
    position.collect()
}

/// Number of matches, counted up to [`crate::store::TOTAL_MAX`].
pub(super) async fn count(conn: &impl Sealing, scope: &Scope, filter: &PaymentFilter) -> Result<u64, StoreError> {
    requests::count(conn, matching(scope, filter).0).await
}

/// Those of some payments that are not moved yet.
pub(super) async fn load(conn: &impl Sealing, scope: &Scope, ids: &[String]) -> Result<Vec<FoundPayment>, StoreError> {
    let found = former_payments::Entity::find()
        .filter(Column::PlatformId.eq(scope.platform.as_str()))
        .filter(Column::Id.is_in(ids))
        .find_also_related(request_rows::Entity)
        .all(conn)
        .await?;
    let rows = found.into_iter().map(|(payment, request)| {
        let request = request.ok_or_else(|| columns::broken("request_row", &payment.request_row))?;
        let payment = from_row(converted(payment)?)?;
        let summary = summary(conn, &payment, &request.status, request.customer)?;
        Ok((payment, summary))
    });
    rows.collect()
}

/// Ids of all matches, and the expressions whose descending order puts the newest first.
///
/// What is most selective leads. A key picks its few payments first, by itself: beside a date or an order, SQLite would
/// rather walk all payments of the platform by time.
fn matching(scope: &Scope, filter: &PaymentFilter) -> (SelectStatement, [Expr; 2]) {
    let mut query = Query::select();
    if let Some(keyed) = keyed(scope, filter) {
        query
            .expr(of_payment(Column::Id))
            .from(former_payments::Entity)
            .and_where(of_payment(Column::Id).in_subquery(keyed));
        narrow(&mut query, scope, filter);
        between(&mut query, &of_payment(Column::PaidAt), filter);
        if let Some(wallet) = &filter.wallet {
            let party = of_wallet(scope, wallet)
                .expr(of_party(Party::PaymentId))
                .and_where(of_party(Party::PaidAt).eq(of_payment(Column::PaidAt)))
                .and_where(of_party(Party::PaymentId).eq(of_payment(Column::Id)))
                .to_owned();
            query.and_where(Expr::exists(party));
        }
        return (query, [of_payment(Column::PaidAt), of_payment(Column::Id)]);
    }
    let Some(wallet) = &filter.wallet else {
        query
            .expr(of_payment(Column::Id))
            .from(former_payments::Entity)
            .and_where(of_payment(Column::PlatformId).eq(scope.platform.as_str()));
        narrow(&mut query, scope, filter);
        between(&mut query, &of_payment(Column::PaidAt), filter);
        return (query, [of_payment(Column::PaidAt), of_payment(Column::Id)]);
    };
    let mut query = of_wallet(scope, wallet);
    query.expr(of_party(Party::PaymentId));
    between(&mut query, &of_party(Party::PaidAt), filter);
    // Wallets of payments that were moved stay until all are.
    query.inner_join(
        former_payments::Entity,
        of_payment(Column::Id).eq(of_party(Party::PaymentId)),
    );
    narrow(&mut query, scope, filter);
    (query, [of_party(Party::PaidAt), of_party(Party::PaymentId)])
}

/// Ids of the platform's payments with one of the keys that few payments share, when the filter names one.
fn keyed(scope: &Scope, filter: &PaymentFilter) -> Option<SelectStatement> {
    let (column, key) = keys(filter)
        .into_iter()
        .find_map(|(column, key)| Some((column, key?)))?;
    let query = Query::select()
        .expr(of_payment(Column::Id))
        .from(former_payments::Entity)
        .and_where(of_payment(Column::PlatformId).eq(scope.platform.as_str()))
        .and_where(of_payment(column).eq(key))
        .to_owned();
    Some(query)
}

/// The keys of a filter, the most selective first.
fn keys(filter: &PaymentFilter) -> [(Column, Option<String>); 4] {
    [
        (Column::TxHash, filter.tx_hash.as_ref().map(columns::hash_text)),
        (
            Column::Reference,
            filter.reference.as_ref().map(columns::reference_text),
        ),
        (Column::RequestId, filter.request_id.clone()),
        (Column::MerchantReference, filter.merchant_reference.clone()),
    ]
}

/// Rows of a wallet among the parties of the platform's payments.
fn of_wallet(scope: &Scope, wallet: &Address) -> SelectStatement {
    Query::select()
        .from(former_payment_parties::Entity)
        .and_where(of_party(Party::PlatformId).eq(scope.platform.as_str()))
        .and_where(of_party(Party::Wallet).eq(wallet.canonical()))
        .to_owned()
}

fn of_party(column: Party) -> Expr {
    Expr::col((former_payment_parties::Entity, column))
}

fn of_payment(column: Column) -> Expr {
    Expr::col((former_payments::Entity, column))
}

/// Adds the conditions that columns of the payment decide.
fn narrow(query: &mut SelectStatement, scope: &Scope, filter: &PaymentFilter) {
    let others = [
        (Column::ClientRow, scope.client.as_ref().map(|client| client.0.clone())),
        (Column::Kind, filter.kind.map(|kind| kind.wire().to_owned())),
        (
            Column::Payee,
            filter
                .wallet
                .filter(|_| filter.is_wallet_payee)
                .map(|wallet| wallet.canonical()),
        ),
    ];
    for (column, wanted) in keys(filter).into_iter().chain(others) {
        query.and_where_option(wanted.map(|wanted| of_payment(column).eq(wanted)));
    }
    let lists = [
        (Column::InvoiceCurrency, &filter.invoice_currencies),
        (Column::PaymentCurrency, &filter.payment_currencies),
    ];
    for (column, wanted) in lists {
        query.and_where_option(wanted.clone().map(|wanted| of_payment(column).is_in(wanted)));
    }
}

fn between(query: &mut SelectStatement, paid_at: &Expr, filter: &PaymentFilter) {
    query
        .and_where_option(filter.from.map(|from| paid_at.clone().gte(from)))
        .and_where_option(filter.to.map(|to| paid_at.clone().lte(to)));
}
