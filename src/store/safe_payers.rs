//! Safes that got calldata of a secure payment, and the search for what they executed.

use super::{StoreError, columns, requests, secure_payments::intent};
use crate::domain::{
    address::Address,
    ids::{PlatformId, SecurePaymentId},
    network::Network,
    secure_payment::{SecurePayment, intent::PaymentIntent},
};
use chrono::{DateTime, Utc};
use entities::{
    secure_payment_intents::{Column as Intent, Entity as Intents},
    secure_payment_safes::{ActiveModel, Column, Entity, Model},
};
use sea_orm::{
    ColumnTrait, Condition, ConnectionTrait, EntityTrait, PaginatorTrait, QueryFilter, QueryOrder, QuerySelect,
    QueryTrait,
    sea_query::{Expr, OnConflict},
};

/// A Safe that got calldata of a secure payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HandedSafe {
    /// When it first locked the link.
    pub locked_at: Option<DateTime<Utc>>,
}

fn key(payment: &SecurePayment, safe: &Address) -> Condition {
    Condition::all()
        .add(Column::PlatformId.eq(payment.origin.platform.as_str()))
        .add(Column::SecurePaymentId.eq(payment.id.as_str()))
        .add(Column::Safe.eq(safe.canonical()))
}

/// Records that a Safe got calldata of a secure payment. If more than `kept` Safes are then recorded, this call deletes
/// the oldest other one that never locked the link.
pub async fn note_handed(
    conn: &impl ConnectionTrait,
    payment: &SecurePayment,
    safe: &Address,
    kept: u64,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let row = ActiveModel::from(Model {
        platform_id: payment.origin.platform.0.clone(),
        secure_payment_id: payment.id.0.clone(),
        safe: safe.canonical(),
        handed_at: now,
        locked_at: None,
    });
    let again = OnConflict::columns([Column::PlatformId, Column::SecurePaymentId, Column::Safe])
        .do_nothing()
        .to_owned();
    Entity::insert(row)
        .on_conflict(again)
        .exec_without_returning(conn)
        .await?;
    if of_payment(payment).count(conn).await? <= kept {
        return Ok(());
    }
    let oldest = of_payment(payment)
        .filter(Column::LockedAt.is_null())
        .filter(Column::Safe.ne(safe.canonical()))
        .order_by_asc(Column::HandedAt)
        .limit(1)
        .one(conn)
        .await?;
    if let Some(oldest) = oldest {
        Entity::delete_many()
            .filter(Column::PlatformId.eq(oldest.platform_id))
            .filter(Column::SecurePaymentId.eq(oldest.secure_payment_id))
            .filter(Column::Safe.eq(oldest.safe))
            .exec(conn)
            .await?;
    }
    Ok(())
}

fn of_payment(payment: &SecurePayment) -> sea_orm::Select<Entity> {
    Entity::find()
        .filter(Column::PlatformId.eq(payment.origin.platform.as_str()))
        .filter(Column::SecurePaymentId.eq(payment.id.as_str()))
}

/// A Safe that got calldata of a secure payment; `None` if it got none.
pub async fn find(
    conn: &impl ConnectionTrait,
    payment: &SecurePayment,
    safe: &Address,
) -> Result<Option<HandedSafe>, StoreError> {
    let row = Entity::find().filter(key(payment, safe)).one(conn).await?;
    Ok(row.map(|row| HandedSafe {
        locked_at: row.locked_at,
    }))
}

/// Records when a Safe first locked the link.
pub async fn note_locked(
    conn: &impl ConnectionTrait,
    payment: &SecurePayment,
    safe: &Address,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    Entity::update_many()
        .col_expr(Column::LockedAt, Expr::value(now))
        .filter(key(payment, safe))
        .filter(Column::LockedAt.is_null())
        .exec(conn)
        .await?;
    Ok(())
}

/// Condition for a report whose execution is searched. It contains no parameter, so that the database can use the partial
/// index with this condition.
const AWAITING: &str = "state = 'awaiting_execution'";

/// A report whose execution is searched, with its secure payment.
#[derive(Debug, Clone)]
pub struct AwaitedExecution {
    /// Tenant.
    pub platform: PlatformId,
    /// The secure payment.
    pub payment: SecurePaymentId,
    /// The report.
    pub intent: PaymentIntent,
}

/// Reports of Safes whose execution is searched on a network, those first that were searched longest ago. A report that
/// cannot be read is logged and left out.
pub async fn awaited(
    conn: &impl ConnectionTrait,
    network: Network,
    limit: u64,
) -> Result<Vec<AwaitedExecution>, StoreError> {
    let rows = Intents::find()
        .filter(Intent::Network.eq(network.id()))
        .filter(Expr::cust(AWAITING))
        .order_by_asc(Intent::SearchedAt)
        .limit(limit)
        .all(conn)
        .await?;
    let read = rows.into_iter().filter_map(|row| {
        let (platform, payment) = (row.platform_id.clone(), row.secure_payment_id.clone());
        let id = row.id.clone();
        let intent = intent(row).inspect_err(|error| tracing::error!(row = id, %error, "a report cannot be read"));
        Some(AwaitedExecution {
            platform: PlatformId(platform),
            payment: SecurePaymentId(payment),
            intent: intent.ok()?,
        })
    });
    Ok(read.collect())
}

/// Numbers of executions that are searched on a network and whose deadline lies ahead: for a platform, and for a Safe,
/// each counted up to `up_to`.
pub async fn count_awaited(
    conn: &impl ConnectionTrait,
    platform: &PlatformId,
    safe: &Address,
    network: Network,
    now: DateTime<Utc>,
    up_to: u64,
) -> Result<(u64, u64), StoreError> {
    let awaited = |of: Expr| {
        let rows = Intents::find().select_only().column(Intent::Id).filter(of);
        let rows = rows
            .filter(Intent::Deadline.gte(now))
            .filter(Intent::Network.eq(network.id()))
            .filter(Expr::cust(AWAITING));
        requests::count_up_to(conn, rows.into_query(), up_to)
    };
    let of_platform = awaited(Intent::PlatformId.eq(platform.as_str())).await?;
    let of_safe = awaited(Intent::Payer.eq(safe.canonical())).await?;
    Ok((of_platform, of_safe))
}

/// Records that the execution of a Safe was searched, and up to which block; `None` if the search has to be repeated.
/// Other executions are then searched first.
pub async fn note_searched(
    conn: &impl ConnectionTrait,
    awaited: &AwaitedExecution,
    to: Option<u64>,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let to = to.or(awaited.intent.searched_to);
    let to: Option<i64> = to.map(|to| columns::number("searched_to", to)).transpose()?;
    Intents::update_many()
        .col_expr(Intent::SearchedTo, Expr::value(to))
        .col_expr(Intent::SearchedAt, Expr::value(now))
        .filter(Intent::PlatformId.eq(awaited.platform.as_str()))
        .filter(Intent::Id.eq(awaited.intent.id.as_str()))
        .exec(conn)
        .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::AWAITING;
    use crate::domain::secure_payment::intent::IntentState;

    #[test]
    fn the_condition_names_the_state_of_a_searched_execution() {
        let state = IntentState::AwaitingExecution.wire();
        assert_eq!(AWAITING, format!("state = '{state}'"));
    }
}
