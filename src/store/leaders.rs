//! Who follows each network: one instance at a time, by a lease that it renews, under a term that grows whenever
//! somebody begins to lead.
//!
//! The lease says when others may take over, by the clock of the database. The term says whose commits count: each one
//! checks it with [`is_current`], and one under a former term changes nothing. So a clock that jumps may change the leader
//! too early, and never lets two of them write. Source: ADR-0015.

use super::{StoreError, columns, time};
use crate::domain::network::Network;
use chrono::{DateTime, TimeDelta, Utc};
use entities::chain_leaders::{ActiveModel, Column, Entity, Model};
use sea_orm::{
    ColumnTrait, Condition, ConnectionTrait, EntityTrait, QueryFilter, QuerySelect,
    sea_query::{Expr, LockType, OnConflict},
};

/// No lease is longer: one that ends later was written before the clock of the database was set back.
pub const LEASE_MAX: TimeDelta = TimeDelta::seconds(60);

/// A time for which one instance leads a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Term {
    /// Network.
    pub network: Network,
    /// Its number, greater than those before.
    pub number: u64,
}

/// Whether the instance may begin to lead: nobody does, the lease has ended, or it led before it was started again.
pub async fn is_open(conn: &impl ConnectionTrait, network: Network, holder: &str) -> Result<bool, StoreError> {
    let now = time::now(conn).await?;
    let held = Entity::find_by_id(network.id()).filter(may_begin(holder, now).not());
    Ok(held.one(conn).await?.is_none())
}

fn may_begin(holder: &str, now: DateTime<Utc>) -> Condition {
    Condition::any()
        .add(Column::Holder.is_null())
        .add(Column::Holder.eq(holder))
        .add(Column::LeaseUntil.lte(now))
        .add(Column::LeaseUntil.gt(now + LEASE_MAX))
}

/// Begins a term; `None` when somebody else leads. Needs a transaction.
pub async fn begin(
    conn: &impl ConnectionTrait,
    network: Network,
    holder: &str,
    lease: TimeDelta,
) -> Result<Option<Term>, StoreError> {
    let now = time::now(conn).await?;
    let Some(known) = Entity::find_by_id(network.id()).one(conn).await? else {
        let first = Model {
            network: network.id().to_owned(),
            term: 1,
            holder: Some(holder.to_owned()),
            lease_until: now + lease,
        };
        let nobody_else = OnConflict::column(Column::Network).do_nothing().to_owned();
        let insertion = Entity::insert(ActiveModel::from(first)).on_conflict(nobody_else);
        let is_begun = insertion.exec_without_returning(conn).await? == 1;
        return Ok(is_begun.then_some(Term { network, number: 1 }));
    };
    let result = Entity::update_many()
        .col_expr(Column::Term, Expr::value(known.term + 1))
        .col_expr(Column::Holder, Expr::value(holder))
        .col_expr(Column::LeaseUntil, Expr::value(now + lease))
        .filter(Column::Network.eq(network.id()))
        .filter(Column::Term.eq(known.term))
        .filter(may_begin(holder, now))
        .exec(conn)
        .await?;
    let number = columns::number("term", known.term + 1)?;
    Ok((result.rows_affected == 1).then_some(Term { network, number }))
}

/// Renews the lease; `false` when the term has ended. Needs a transaction.
pub async fn renew(conn: &impl ConnectionTrait, term: &Term, lease: TimeDelta) -> Result<bool, StoreError> {
    let now = time::now(conn).await?;
    let result = Entity::update_many()
        .col_expr(Column::LeaseUntil, Expr::value(now + lease))
        .filter(is_term(term)?)
        .filter(Column::Holder.is_not_null())
        .exec(conn)
        .await?;
    Ok(result.rows_affected == 1)
}

/// Hands the network over: whoever looks next may lead it.
pub async fn resign(conn: &impl ConnectionTrait, term: &Term) -> Result<(), StoreError> {
    Entity::update_many()
        .col_expr(Column::Holder, Expr::value(None::<String>))
        .col_expr(Column::LeaseUntil, Expr::value(DateTime::<Utc>::UNIX_EPOCH))
        .filter(is_term(term)?)
        .exec(conn)
        .await?;
    Ok(())
}

/// Whether nobody has begun to lead since; nobody can before the transaction ends. A lease that ended is still good
/// until then.
pub async fn is_current(conn: &impl ConnectionTrait, term: &Term) -> Result<bool, StoreError> {
    let found: Option<i64> = Entity::find()
        .select_only()
        .column(Column::Term)
        .filter(is_term(term)?)
        .lock(LockType::KeyShare)
        .into_tuple()
        .one(conn)
        .await?;
    Ok(found.is_some())
}

fn is_term(term: &Term) -> Result<Condition, StoreError> {
    let number: i64 = columns::number("term", term.number)?;
    Ok(Condition::all()
        .add(Column::Network.eq(term.network.id()))
        .add(Column::Term.eq(number)))
}
