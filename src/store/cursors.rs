//! How far each chain has been read, and the window: the hashes of recent blocks, which show where a reorganisation
//! began.

use super::{StoreError, columns};
use crate::domain::{
    network::Network,
    payment::{BlockRef, Finality},
};
use alloy::primitives::B256;
use chrono::{DateTime, Utc};
use entities::{chain_backlogs, chain_blocks, chain_cursors};
use sea_orm::{
    ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect,
    sea_query::{Expr, OnConflict},
};
use std::collections::BTreeMap;

/// A block up to which the chain was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReachedBlock {
    /// Height.
    pub number: u64,
    /// Hash.
    pub hash: B256,
}

/// Progress on one chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor {
    /// Network.
    pub network: Network,
    /// Newest block that was read.
    pub seen: ReachedBlock,
    /// Newest block that was settled as final.
    pub finalized: ReachedBlock,
    /// Why the chain is halted until the operator acts; `None` while the chain is not halted.
    pub halted_reason: Option<String>,
    /// The rule by which blocks count as final; `None` before the first final block.
    pub finality: Option<Finality>,
    /// Whether the operator allows a rewind below the final block.
    pub may_rewind: bool,
    /// Last change.
    pub updated_at: DateTime<Utc>,
}

/// The progress on a chain; `None` before the first block.
pub async fn load(conn: &impl ConnectionTrait, network: Network) -> Result<Option<Cursor>, StoreError> {
    let row = chain_cursors::Entity::find_by_id(network.id()).one(conn).await?;
    row.map(from_row).transpose()
}

/// The progress on a chain, locked until the transaction ends.
pub async fn hold(conn: &impl ConnectionTrait, network: Network) -> Result<Option<Cursor>, StoreError> {
    let held = chain_cursors::Entity::find_by_id(network.id()).lock_shared();
    let row = held.one(conn).await?;
    row.map(from_row).transpose()
}

fn from_row(row: chain_cursors::Model) -> Result<Cursor, StoreError> {
    let finality = row.finality.as_deref();
    let finality = finality.map(|text| columns::known("finality", text, Finality::from_wire));
    Ok(Cursor {
        network: columns::network(&row.network)?,
        seen: ReachedBlock {
            number: columns::number("seen_number", row.seen_number)?,
            hash: columns::hash("seen_hash", &row.seen_hash)?,
        },
        finalized: ReachedBlock {
            number: columns::number("final_number", row.final_number)?,
            hash: columns::hash("final_hash", &row.final_hash)?,
        },
        halted_reason: row.halted_reason,
        finality: finality.transpose()?,
        may_rewind: row.may_rewind,
        updated_at: row.updated_at,
    })
}

/// Time of the newest block in the window up to which every block was settled that may concern what was created at
/// `since`. A range that was added to the backlog before contains older blocks only. `None` if the window has no such
/// block.
pub async fn read_until(
    conn: &impl ConnectionTrait,
    network: Network,
    since: DateTime<Utc>,
) -> Result<Option<DateTime<Utc>>, StoreError> {
    use chain_backlogs::Column as Unread;
    use chain_blocks::Column;
    // The cursor comes first: a commit that moves it may also add blocks to the backlog.
    let Some(cursor) = load(conn, network).await? else {
        return Ok(None);
    };
    let unread: Option<i64> = chain_backlogs::Entity::find()
        .select_only()
        .column(Unread::NextBlock)
        .filter(Unread::Network.eq(network.id()))
        .filter(Unread::CreatedAt.gte(since))
        .order_by_asc(Unread::NextBlock)
        .limit(1)
        .into_tuple()
        .one(conn)
        .await?;
    let settled: i64 = columns::number("final_number", cursor.finalized.number)?;
    let newest = chain_blocks::Entity::find()
        .filter(Column::Network.eq(network.id()))
        .filter(Column::Number.lte(unread.map_or(settled, |unread| settled.min(unread - 1))))
        .order_by_desc(Column::Number)
        .limit(1)
        .one(conn)
        .await?;
    newest.map(|row| columns::unix_time("time_s", row.time_s)).transpose()
}

/// Networks that are halted, and why.
pub async fn halted(conn: &impl ConnectionTrait) -> Result<BTreeMap<Network, String>, StoreError> {
    let rows: Vec<(String, String)> = chain_cursors::Entity::find()
        .select_only()
        .column(chain_cursors::Column::Network)
        .column(chain_cursors::Column::HaltedReason)
        .filter(chain_cursors::Column::HaltedReason.is_not_null())
        .into_tuple()
        .all(conn)
        .await?;
    rows.into_iter()
        .map(|(network, reason)| Ok((columns::network(&network)?, reason)))
        .collect()
}

/// Begins the progress on a chain. Returns whether this call began it: another instance may have been first.
pub async fn begin(conn: &impl ConnectionTrait, cursor: &Cursor) -> Result<bool, StoreError> {
    let row = chain_cursors::Model {
        network: cursor.network.id().to_owned(),
        seen_number: columns::number("seen_number", cursor.seen.number)?,
        seen_hash: columns::hash_text(&cursor.seen.hash),
        final_number: columns::number("final_number", cursor.finalized.number)?,
        final_hash: columns::hash_text(&cursor.finalized.hash),
        halted_reason: cursor.halted_reason.clone(),
        finality: cursor.finality.map(|finality| finality.wire().to_owned()),
        may_rewind: cursor.may_rewind,
        updated_at: cursor.updated_at,
    };
    let first = OnConflict::column(chain_cursors::Column::Network)
        .do_nothing()
        .to_owned();
    let insertion = chain_cursors::Entity::insert(chain_cursors::ActiveModel::from(row)).on_conflict(first);
    Ok(insertion.exec_without_returning(conn).await? == 1)
}

/// Moves the progress on a chain from the state that was read to a new state. Returns whether it did: progress that was
/// moved, halted or resumed in the meantime stays unchanged, so a step in flight never undoes a halt. Call it in the
/// transaction that writes the payments found in these blocks.
pub async fn replace(conn: &impl ConnectionTrait, from: &Cursor, to: &Cursor) -> Result<bool, StoreError> {
    use chain_cursors::Column;
    let number = |column: &str, number: u64| columns::number::<_, i64>(column, number);
    let is_as_halted = match &from.halted_reason {
        Some(reason) => Column::HaltedReason.eq(reason.as_str()),
        None => Column::HaltedReason.is_null(),
    };
    let result = chain_cursors::Entity::update_many()
        .col_expr(Column::SeenNumber, Expr::value(number("seen_number", to.seen.number)?))
        .col_expr(Column::SeenHash, Expr::value(columns::hash_text(&to.seen.hash)))
        .col_expr(
            Column::FinalNumber,
            Expr::value(number("final_number", to.finalized.number)?),
        )
        .col_expr(Column::FinalHash, Expr::value(columns::hash_text(&to.finalized.hash)))
        .col_expr(Column::HaltedReason, Expr::value(to.halted_reason.clone()))
        .col_expr(Column::Finality, Expr::value(to.finality.map(Finality::wire)))
        .col_expr(Column::MayRewind, Expr::value(to.may_rewind))
        .col_expr(Column::UpdatedAt, Expr::value(to.updated_at))
        .filter(Column::Network.eq(to.network.id()))
        .filter(Column::SeenNumber.eq(number("seen_number", from.seen.number)?))
        .filter(Column::SeenHash.eq(columns::hash_text(&from.seen.hash)))
        .filter(Column::FinalNumber.eq(number("final_number", from.finalized.number)?))
        .filter(Column::FinalHash.eq(columns::hash_text(&from.finalized.hash)))
        .filter(Column::MayRewind.eq(from.may_rewind))
        .filter(is_as_halted)
        .exec(conn)
        .await?;
    Ok(result.rows_affected == 1)
}

/// Deletes the progress on a chain and the recorded blocks; its payments stay. The next read starts over.
pub async fn forget(conn: &impl ConnectionTrait, network: Network) -> Result<(), StoreError> {
    chain_cursors::Entity::delete_by_id(network.id()).exec(conn).await?;
    chain_backlogs::Entity::delete_many()
        .filter(chain_backlogs::Column::Network.eq(network.id()))
        .exec(conn)
        .await?;
    super::observations::delete_above(conn, network, 0).await?;
    delete_blocks(conn, network, chain_blocks::Column::Number.gte(0)).await?;
    Ok(())
}

/// Adds blocks to the window; a block of a height that is already stored replaces the stored block.
pub async fn push_blocks(conn: &impl ConnectionTrait, network: Network, blocks: &[BlockRef]) -> Result<(), StoreError> {
    use chain_blocks::Column;
    for blocks in blocks.chunks(columns::ROWS_MAX) {
        let rows = blocks
            .iter()
            .map(|block| {
                Ok(chain_blocks::ActiveModel::from(chain_blocks::Model {
                    network: network.id().to_owned(),
                    number: columns::number("number", block.number)?,
                    hash: columns::hash_text(&block.hash),
                    parent_hash: columns::hash_text(&block.parent_hash),
                    time_s: block.time.timestamp(),
                }))
            })
            .collect::<Result<Vec<_>, StoreError>>()?;
        let replaced = OnConflict::columns([Column::Network, Column::Number])
            .update_columns([Column::Hash, Column::ParentHash, Column::TimeS])
            .to_owned();
        chain_blocks::Entity::insert_many(rows)
            .on_conflict(replaced)
            .exec_without_returning(conn)
            .await?;
    }
    Ok(())
}

/// The window, newest block first.
pub async fn window(conn: &impl ConnectionTrait, network: Network) -> Result<Vec<BlockRef>, StoreError> {
    let rows = chain_blocks::Entity::find()
        .filter(chain_blocks::Column::Network.eq(network.id()))
        .order_by_desc(chain_blocks::Column::Number)
        .all(conn)
        .await?;
    rows.into_iter()
        .map(|row| {
            Ok(BlockRef {
                number: columns::number("number", row.number)?,
                hash: columns::hash("hash", &row.hash)?,
                parent_hash: columns::hash("parent_hash", &row.parent_hash)?,
                time: columns::unix_time("time_s", row.time_s)?,
            })
        })
        .collect()
}

/// Removes the blocks above a height, which a reorganisation has replaced; returns how many.
pub async fn delete_blocks_above(
    conn: &impl ConnectionTrait,
    network: Network,
    number: u64,
) -> Result<u64, StoreError> {
    let number: i64 = columns::number("number", number)?;
    delete_blocks(conn, network, chain_blocks::Column::Number.gt(number)).await
}

/// Removes settled blocks, those up to and including `settled`, from the window, except the newest `kept` of them.
pub async fn prune_blocks(
    conn: &impl ConnectionTrait,
    network: Network,
    settled: u64,
    kept: u64,
) -> Result<(), StoreError> {
    use chain_blocks::Column;
    let settled: i64 = columns::number("number", settled)?;
    let newest_gone: Option<i64> = chain_blocks::Entity::find()
        .select_only()
        .column(Column::Number)
        .filter(Column::Network.eq(network.id()))
        .filter(Column::Number.lte(settled))
        .order_by_desc(Column::Number)
        .offset(kept)
        .limit(1)
        .into_tuple()
        .one(conn)
        .await?;
    if let Some(newest_gone) = newest_gone {
        delete_blocks(conn, network, Column::Number.lte(newest_gone)).await?;
    }
    Ok(())
}

async fn delete_blocks(
    conn: &impl ConnectionTrait,
    network: Network,
    which: sea_orm::sea_query::Expr,
) -> Result<u64, StoreError> {
    let result = chain_blocks::Entity::delete_many()
        .filter(chain_blocks::Column::Network.eq(network.id()))
        .filter(which)
        .exec(conn)
        .await?;
    Ok(result.rows_affected)
}
