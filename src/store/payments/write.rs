//! Recording payments, and changing recorded ones.

use super::{
    groups,
    record::{SettledPayment, from_row, to_row},
};
use crate::{
    domain::{
        ids::{PaymentId, PlatformId},
        payment::{PayerAccess, ReversalReason},
        payment_record::PaymentRecord,
    },
    store::{StoreError, columns},
};
use chrono::{DateTime, Utc};
use entities::{payment_parties, payment_parties::Column as Party, payments, payments::Column};
use sea_orm::{
    ActiveModelTrait, ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QuerySelect, QueryTrait,
    sea_query::{Expr, ExprTrait, IntoIden, OnConflict, Query, TableRef, ValueTuple},
};
use std::collections::HashSet;

/// Alias of the list of values in an update.
const GIVEN: &str = "given";

/// Records the payments whose events are not recorded yet, with two statements for a batch; returns the ids of the
/// recorded payments.
///
/// Credit a request only for a payment whose id this function returns, in the same transaction.
pub async fn insert_new(
    conn: &impl ConnectionTrait,
    payments: &[SettledPayment<'_>],
) -> Result<HashSet<PaymentId>, StoreError> {
    let rows = payments.iter().map(to_row).collect::<Result<Vec<_>, _>>()?;
    let mut fresh = Vec::with_capacity(rows.len());
    for rows in rows.chunks(columns::ROWS_MAX) {
        let mut insertion =
            payments::Entity::insert_many(rows.iter().cloned().map(payments::ActiveModel::from)).into_query();
        insertion
            .on_conflict(
                OnConflict::columns([Column::TxHash, Column::Network, Column::Position])
                    .do_nothing()
                    .to_owned(),
            )
            .returning_col(Column::Id);
        let mut new_ids = HashSet::new();
        for row in conn.query_all(&insertion).await? {
            new_ids.insert(row.try_get::<String>("", "id")?);
        }
        fresh.extend(rows.iter().filter(|row| new_ids.contains(&row.id)).cloned());
    }
    groups::enter(conn, &fresh).await?;
    Ok(fresh.into_iter().map(|row| PaymentId(row.id)).collect())
}

/// Marks a payment as reversed; returns the changed payment, or nothing if the payment is already marked.
pub async fn reverse(
    conn: &impl ConnectionTrait,
    platform: &PlatformId,
    id: &PaymentId,
    reason: ReversalReason,
    now: DateTime<Utc>,
) -> Result<Option<PaymentRecord>, StoreError> {
    let result = payments::Entity::update_many()
        .col_expr(Column::ReversedAt, Expr::value(now))
        .col_expr(Column::ReversalReason, Expr::value(reason.wire()))
        .filter(Column::PlatformId.eq(platform.as_str()))
        .filter(Column::Id.eq(id.as_str()))
        .filter(Column::ReversedAt.is_null())
        .exec(conn)
        .await?;
    if result.rows_affected == 0 {
        return Ok(None);
    }
    let row = payments::Entity::find()
        .filter(Column::PlatformId.eq(platform.as_str()))
        .filter(Column::Id.eq(id.as_str()))
        .one(conn)
        .await?;
    row.map(from_row).transpose()
}

/// Records whether events reported payments, or that they were reversed, with one statement for a batch.
pub async fn set_told(
    conn: &impl ConnectionTrait,
    of: &[(PlatformId, PaymentId)],
    is_told: bool,
) -> Result<(), StoreError> {
    let given = |column: &'static str| Expr::col((GIVEN, column));
    let stored = |column: Column| Expr::col((payments::Entity, column));
    for of in of.chunks(columns::ROWS_MAX) {
        let rows = of
            .iter()
            .map(|(platform, id)| ValueTuple::Two(platform.as_str().into(), id.as_str().into()));
        // Both databases name the columns of a list of values this way.
        let update = Query::update()
            .table(payments::Entity)
            .from(TableRef::ValuesList(rows.collect(), GIVEN.into_iden()))
            .value(Column::IsTold, is_told)
            .and_where(stored(Column::PlatformId).eq(given("column1")))
            .and_where(stored(Column::Id).eq(given("column2")))
            .to_owned();
        conn.execute(&update).await?;
    }
    Ok(())
}

/// Records whether a payer was allowed to pay, where that was unknown.
pub async fn set_access(
    conn: &impl ConnectionTrait,
    platform: &PlatformId,
    id: &PaymentId,
    access: PayerAccess,
) -> Result<(), StoreError> {
    payments::Entity::update_many()
        .col_expr(Column::PayerAccess, Expr::value(access.wire()))
        .filter(Column::PlatformId.eq(platform.as_str()))
        .filter(Column::Id.eq(id.as_str()))
        .filter(Column::PayerAccess.eq(PayerAccess::Unknown.wire()))
        .exec(conn)
        .await?;
    Ok(())
}

/// Makes a reversed payment count again: replaces its data by what the chain now proves, and removes the reversal mark.
/// Returns the payment; `None` if it is not marked as reversed. The payment keeps its id and whether it was reported.
/// Needs a transaction.
///
/// Credit a request again only after this function returned the payment, in the same transaction.
pub async fn reinstate(
    conn: &impl ConnectionTrait,
    payment: &SettledPayment<'_>,
) -> Result<Option<PaymentRecord>, StoreError> {
    overwrite(conn, payment, Column::ReversedAt.is_not_null()).await
}

/// Replaces the facts of a payment that counts by what the chain now proves: the same money in another place. The
/// payment keeps its id and whether it was reported. Needs a transaction.
pub async fn relocate(conn: &impl ConnectionTrait, payment: &SettledPayment<'_>) -> Result<(), StoreError> {
    overwrite(conn, payment, Column::ReversedAt.is_null()).await?;
    Ok(())
}

/// Replaces the facts of a payment that is in the given state, and the parties of the payment; returns the changed
/// payment.
async fn overwrite(
    conn: &impl ConnectionTrait,
    payment: &SettledPayment<'_>,
    state: Expr,
) -> Result<Option<PaymentRecord>, StoreError> {
    let fresh = to_row(payment)?;
    let stored = payments::Entity::find()
        .filter(Column::PlatformId.eq(fresh.platform_id.as_str()))
        .filter(Column::Network.eq(fresh.network.as_str()))
        .filter(Column::TxHash.eq(fresh.tx_hash.as_slice()))
        .filter(Column::Position.eq(fresh.position))
        .filter(state)
        // The row is locked, because its wallets and counts are changed before the row itself.
        .lock_exclusive()
        .one(conn)
        .await?;
    let Some(stored) = stored else { return Ok(None) };
    let again = payments::Model {
        id: stored.id.clone(),
        created_at: stored.created_at,
        is_told: stored.is_told,
        ..fresh
    };
    // The stored flag `is_hidden` stays, because the flag of the request may have been read before a link hid the
    // request.
    let again = groups::hidden_as(again, stored.is_hidden);
    rewrite(conn, &stored, again.clone()).await?;
    from_row(again).map(Some)
}

/// Marks the payments of some requests of a platform, by their public ids, as hidden. Needs a transaction.
///
/// Payments that are recorded after the requests were marked as hidden are already marked.
pub(in crate::store) async fn hide(
    conn: &impl ConnectionTrait,
    platform: &PlatformId,
    request_ids: &[String],
) -> Result<(), StoreError> {
    for request_ids in request_ids.chunks(columns::ROWS_MAX) {
        let shown = payments::Entity::find()
            .filter(Column::PlatformId.eq(platform.as_str()))
            .filter(Column::RequestId.is_in(request_ids))
            .filter(Column::IsHidden.eq(false))
            .lock_exclusive()
            .all(conn)
            .await?;
        for stored in shown {
            let again = groups::hidden_as(stored.clone(), true);
            rewrite(conn, &stored, again).await?;
        }
    }
    Ok(())
}

/// Replaces a locked row and its parties, and updates the counts.
async fn rewrite(
    conn: &impl ConnectionTrait,
    stored: &payments::Model,
    again: payments::Model,
) -> Result<(), StoreError> {
    payment_parties::Entity::delete_many()
        .filter(Party::PlatformId.eq(stored.platform_id.as_str()))
        .filter(Party::Wallet.is_in(groups::wallets_of(stored)))
        .filter(Party::GroupKey.is_in(std::iter::once(stored.group_key).chain(stored.client_group_key)))
        .filter(Party::PaidAt.eq(stored.paid_at))
        .filter(Party::PaymentId.eq(stored.id.as_str()))
        .exec(conn)
        .await?;
    groups::enter_parties(conn, std::slice::from_ref(&again)).await?;
    groups::count(conn, &[(stored, -1), (&again, 1)]).await?;
    payments::Entity::update_many()
        .set(payments::ActiveModel::from(again).reset_all())
        .filter(Column::PlatformId.eq(stored.platform_id.as_str()))
        .filter(Column::Id.eq(stored.id.as_str()))
        .exec(conn)
        .await?;
    Ok(())
}
