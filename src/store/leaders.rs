//! The leader of each network. One instance at a time leads, under a lease that it renews. Each leadership is a term,
//! and each new term has a larger number.
//!
//! The lease says, by the clock of the database, when other instances may take over. The term says whose commits take
//! effect: each commit checks its term with [`is_current`], and a commit under a former term changes nothing. So a jump
//! of the clock may change the leader too early, but two leaders never write at once. Source: ADR-0015.

use super::{StoreError, columns, time};
use crate::domain::network::Network;
use chrono::{DateTime, TimeDelta, Utc};
use entities::chain_leaders::{ActiveModel, Column, Entity, Model};
use sea_orm::{
    ColumnTrait, Condition, ConnectionTrait, EntityTrait, QueryFilter, QuerySelect,
    sea_query::{Expr, LockType, OnConflict},
};

/// Longest lease. A stored lease that ends later than this from now was written before the clock of the database was
/// set back, so it is ignored.
pub const LEASE_MAX: TimeDelta = TimeDelta::seconds(60);

/// The period in which one instance leads a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaderTerm {
    /// Network.
    pub network: Network,
    /// The number of the term, greater than those of earlier terms.
    pub number: u64,
}

/// Whether the instance may begin to lead: there is no leader, the lease has ended, or the instance led before it
/// restarted.
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

/// Begins a term; `None` when another instance leads. Needs a transaction.
pub async fn begin(
    conn: &impl ConnectionTrait,
    network: Network,
    holder: &str,
    lease: TimeDelta,
) -> Result<Option<LeaderTerm>, StoreError> {
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
        return Ok(is_begun.then_some(LeaderTerm { network, number: 1 }));
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
    Ok((result.rows_affected == 1).then_some(LeaderTerm { network, number }))
}

/// Renews the lease; `false` when the term has ended. Needs a transaction.
pub async fn renew(conn: &impl ConnectionTrait, term: &LeaderTerm, lease: TimeDelta) -> Result<bool, StoreError> {
    let now = time::now(conn).await?;
    let result = Entity::update_many()
        .col_expr(Column::LeaseUntil, Expr::value(now + lease))
        .filter(is_term(term)?)
        .filter(Column::Holder.is_not_null())
        .exec(conn)
        .await?;
    Ok(result.rows_affected == 1)
}

/// Gives up the network: the next instance that checks may lead it.
pub async fn resign(conn: &impl ConnectionTrait, term: &LeaderTerm) -> Result<(), StoreError> {
    Entity::update_many()
        .col_expr(Column::Holder, Expr::value(None::<String>))
        .col_expr(Column::LeaseUntil, Expr::value(DateTime::<Utc>::UNIX_EPOCH))
        .filter(is_term(term)?)
        .exec(conn)
        .await?;
    Ok(())
}

/// Whether the term is still the last term; no other term can begin before the transaction ends. A term whose lease has
/// ended remains current until another term begins.
pub async fn is_current(conn: &impl ConnectionTrait, term: &LeaderTerm) -> Result<bool, StoreError> {
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

fn is_term(term: &LeaderTerm) -> Result<Condition, StoreError> {
    let number: i64 = columns::number("term", term.number)?;
    Ok(Condition::all()
        .add(Column::Network.eq(term.network.id()))
        .add(Column::Term.eq(number)))
}
