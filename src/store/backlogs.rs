//! Ranges of final blocks that are read in parallel with new blocks, for example after a rescan was requested, or when
//! a block could not be proven.

use super::{StoreError, columns};
use crate::domain::{block_range::BlockRange, network::Network, wire_text::wire_text};
use chrono::{DateTime, Utc};
use entities::chain_backlogs::{ActiveModel, Column, Entity, Model};
use sea_orm::{
    ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QueryOrder,
    sea_query::{Expr, ExprTrait, OnConflict},
};

wire_text! {
    /// Why a range is read again or late.
    pub enum BacklogReason {
        /// When the network was first enabled, its configured first block was older than the newest final block.
        Start = "start",
        /// The operator requested that the range is read again.
        Rescan = "rescan",
        /// The block could not be proven when it was read.
        Unproven = "unproven",
        /// The operator settled a quarantined payment.
        Quarantine = "quarantine",
        /// A reorganisation replaced final blocks in the range. Once the new blocks are final, they are compared with
        /// the recorded payments.
        Rewound = "rewound",
    }
}

/// Due time of a new range. It is always in the past, so the range is due immediately even if the clocks of two
/// machines differ.
const AT_ONCE: DateTime<Utc> = DateTime::UNIX_EPOCH;

/// A range to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backlog {
    /// Network.
    pub network: Network,
    /// Next block to read.
    pub next: u64,
    /// Last block.
    pub end: u64,
    /// Why.
    pub reason: BacklogReason,
    /// Consecutive failures.
    pub failures: u32,
}

impl Backlog {
    /// The blocks that are not read yet.
    pub fn range(&self) -> BlockRange {
        BlockRange {
            from: self.next,
            to: self.end,
        }
    }
}

/// Adds a range. If a range with the same end and reason exists, no range is added: the existing one restarts at the
/// lower of its own next block and the new first block.
pub async fn push(
    conn: &impl ConnectionTrait,
    network: Network,
    range: BlockRange,
    reason: BacklogReason,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let row = Model {
        network: network.id().to_owned(),
        next_block: columns::number("next_block", range.from)?,
        end_block: columns::number("end_block", range.to)?,
        reason: reason.wire().to_owned(),
        failures: 0,
        due_at: AT_ONCE,
        created_at: now,
    };
    let stored = Expr::col((Entity, Column::NextBlock));
    let given = Expr::col(("excluded", Column::NextBlock));
    let lower = Expr::case(stored.clone().lt(given.clone()), stored).finally(given);
    let again = OnConflict::columns([Column::Network, Column::EndBlock, Column::Reason])
        .value(Column::NextBlock, lower)
        .value(Column::Failures, 0)
        .value(Column::DueAt, AT_ONCE)
        .to_owned();
    Entity::insert(ActiveModel::from(row))
        .on_conflict(again)
        .exec_without_returning(conn)
        .await?;
    Ok(())
}

/// Due ranges of a network up to the newest settled block, the longest waiting first.
pub async fn due(
    conn: &impl ConnectionTrait,
    network: Network,
    settled: u64,
    now: DateTime<Utc>,
    limit: u64,
) -> Result<Vec<Backlog>, StoreError> {
    use sea_orm::QuerySelect;
    let settled: i64 = columns::number("end_block", settled)?;
    let rows = Entity::find()
        .filter(Column::Network.eq(network.id()))
        .filter(Column::EndBlock.lte(settled))
        .filter(Column::DueAt.lte(now))
        .order_by_asc(Column::DueAt)
        .order_by_asc(Column::EndBlock)
        .limit(limit)
        .all(conn)
        .await?;
    rows.into_iter().map(from_row).collect()
}

fn from_row(row: Model) -> Result<Backlog, StoreError> {
    Ok(Backlog {
        network: columns::network(&row.network)?,
        next: columns::number("next_block", row.next_block)?,
        end: columns::number("end_block", row.end_block)?,
        reason: columns::known("reason", &row.reason, BacklogReason::from_wire)?,
        failures: columns::number("failures", row.failures)?,
    })
}

/// Moves the start of a range to the block after `read_to`, or removes the range if it is finished. Returns whether it
/// did: a range that was restarted or moved since it was read stays unchanged. The range then goes to the end of the
/// queue, so that ranges alternate.
pub async fn advance(
    conn: &impl ConnectionTrait,
    backlog: &Backlog,
    read_to: u64,
    now: DateTime<Utc>,
) -> Result<bool, StoreError> {
    let from: i64 = columns::number("next_block", backlog.next)?;
    let unchanged = key(backlog)?.add(Column::NextBlock.eq(from));
    let rows_affected = if read_to >= backlog.end {
        let deletion = Entity::delete_many().filter(unchanged);
        deletion.exec(conn).await?.rows_affected
    } else {
        let next: i64 = columns::number("next_block", read_to + 1)?;
        let update = Entity::update_many()
            .col_expr(Column::NextBlock, Expr::value(next))
            .col_expr(Column::Failures, Expr::value(0))
            .col_expr(Column::DueAt, Expr::value(now))
            .filter(unchanged);
        update.exec(conn).await?.rows_affected
    };
    Ok(rows_affected == 1)
}

/// Counts a failure; the range is due again at `due_at`. A range that was restarted since it was read stays unchanged.
pub async fn postpone(conn: &impl ConnectionTrait, backlog: &Backlog, due_at: DateTime<Utc>) -> Result<(), StoreError> {
    let failures: i32 = columns::number("failures", backlog.failures.saturating_add(1))?;
    let next: i64 = columns::number("next_block", backlog.next)?;
    Entity::update_many()
        .col_expr(Column::Failures, Expr::value(failures))
        .col_expr(Column::DueAt, Expr::value(due_at))
        .filter(key(backlog)?.add(Column::NextBlock.eq(next)))
        .exec(conn)
        .await?;
    Ok(())
}

fn key(backlog: &Backlog) -> Result<sea_orm::Condition, StoreError> {
    let end: i64 = columns::number("end_block", backlog.end)?;
    Ok(sea_orm::Condition::all()
        .add(Column::Network.eq(backlog.network.id()))
        .add(Column::EndBlock.eq(end))
        .add(Column::Reason.eq(backlog.reason.wire())))
}
