//! Transactions of the relayer account of this service, each with its bids: versions of the transaction at increasing
//! prices.

use super::{StoreError, columns};
use crate::domain::{
    address::Address,
    ids::{PlatformId, ScheduleId},
    network::Network,
    paying::PaymentTransaction,
    relay::{Bid, GasPrice, RelayState, RelayTransaction},
    schedule::Schedule,
};
use alloy::primitives::{B256, U256};
use chrono::{DateTime, Utc};
use entities::{
    relay_bids::{ActiveModel as BidRow, Column as BidColumn, Entity as Bids, Model as BidModel},
    relay_transactions::{ActiveModel, Column, Entity, Model},
};
use sea_orm::{
    ColumnTrait, Condition, ConnectionTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect, Select, sea_query::Expr,
};

fn of_account(network: Network, relayer: Address) -> Condition {
    Condition::all()
        .add(Column::Network.eq(network.id()))
        .add(Column::Relayer.eq(relayer.canonical()))
}

fn bids_of_account(network: Network, relayer: Address) -> Condition {
    Condition::all()
        .add(BidColumn::Network.eq(network.id()))
        .add(BidColumn::Relayer.eq(relayer.canonical()))
}

fn bid_row(transaction: &RelayTransaction, number: usize, bid: &Bid) -> Result<BidModel, StoreError> {
    let number = u32::try_from(number).unwrap_or(u32::MAX);
    Ok(BidModel {
        network: transaction.network.id().to_owned(),
        relayer: transaction.relayer.canonical(),
        nonce: columns::number("nonce", transaction.nonce)?,
        bid: columns::number("bid", number)?,
        max_fee: bid.price.max_fee.to_string(),
        tip: bid.price.tip.to_string(),
        tx_hash: columns::hash_text(&bid.tx_hash),
        raw: hex::encode(&bid.raw),
        signed_at: bid.signed_at,
    })
}

fn bid(row: &BidModel) -> Result<Bid, StoreError> {
    let units = |column: &str, text: &str| {
        columns::known(column, text, |text| {
            u128::try_from(columns::units(column, text).ok()?).ok()
        })
    };
    Ok(Bid {
        price: GasPrice {
            max_fee: units("max_fee", &row.max_fee)?,
            tip: units("tip", &row.tip)?,
        },
        tx_hash: columns::hash("tx_hash", &row.tx_hash)?,
        raw: columns::known("raw", &row.raw, |text| hex::decode(text).ok())?,
        signed_at: row.signed_at,
    })
}

/// The first free nonce of the account. It is at least `counted`, the number of nonces that the chain has used, and
/// greater than the nonce of every stored transaction that was found in a block.
pub async fn free_nonce(
    conn: &impl ConnectionTrait,
    network: Network,
    relayer: Address,
    counted: u64,
) -> Result<u64, StoreError> {
    let nonces = || {
        Entity::find()
            .select_only()
            .column(Column::Nonce)
            .filter(of_account(network, relayer))
    };
    let in_blocks = [RelayState::Succeeded, RelayState::Reverted].map(RelayState::wire);
    let last: Option<i64> = nonces()
        .filter(Column::State.is_in(in_blocks))
        .order_by_desc(Column::Nonce)
        .into_tuple()
        .one(conn)
        .await?;
    let counted = columns::number("nonce", counted)?;
    let mut free: i64 = last.map_or(counted, |last| counted.max(last.saturating_add(1)));
    let taken: Vec<i64> = nonces()
        .filter(Column::Nonce.gte(free))
        .order_by_asc(Column::Nonce)
        .into_tuple()
        .all(conn)
        .await?;
    for nonce in taken {
        if nonce > free {
            break;
        }
        free = free.saturating_add(1);
    }
    columns::number("nonce", free)
}

/// Adds a transaction with its first bids. Errors: its nonce is taken.
pub async fn insert(
    conn: &impl ConnectionTrait,
    transaction: &RelayTransaction,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let row = Model {
        network: transaction.network.id().to_owned(),
        relayer: transaction.relayer.canonical(),
        nonce: columns::number("nonce", transaction.nonce)?,
        platform_id: transaction.platform.0.clone(),
        schedule_id: transaction.schedule.0.clone(),
        number: i32::from(transaction.number),
        to_address: transaction.step.to.canonical(),
        calldata: hex::encode(&transaction.step.calldata),
        gas_limit: columns::number("gas_limit", transaction.gas_limit)?,
        state: RelayState::Pending.wire().to_owned(),
        created_at: now,
    };
    Entity::insert(ActiveModel::from(row))
        .exec_without_returning(conn)
        .await?;
    for (number, bid) in transaction.bids.iter().enumerate() {
        let row = BidRow::from(bid_row(transaction, number, bid)?);
        Bids::insert(row).exec_without_returning(conn).await?;
    }
    Ok(())
}

/// Adds a bid to a transaction. Errors: a bid was added since the transaction was read.
pub async fn add_bid(conn: &impl ConnectionTrait, transaction: &RelayTransaction, bid: &Bid) -> Result<(), StoreError> {
    let row = BidRow::from(bid_row(transaction, transaction.bids.len(), bid)?);
    Bids::insert(row).exec_without_returning(conn).await?;
    Ok(())
}

fn of_payment(owner: &PlatformId, network: Network, schedule: &ScheduleId, number: u8) -> Select<Entity> {
    Entity::find()
        .filter(Column::PlatformId.eq(owner.as_str()))
        .filter(Column::Network.eq(network.id()))
        .filter(Column::ScheduleId.eq(schedule.as_str()))
        .filter(Column::Number.eq(i32::from(number)))
}

/// Hashes of every transaction that was signed for a payment of a schedule, including abandoned ones.
pub async fn hashes_of(conn: &impl ConnectionTrait, schedule: &Schedule, number: u8) -> Result<Vec<B256>, StoreError> {
    let owner = &schedule.origin.platform;
    let transactions = of_payment(owner, schedule.network, &schedule.id, number);
    let transactions = transactions.all(conn).await?;
    let mut hashes = Vec::new();
    for transaction in transactions {
        let bids = Bids::find()
            .filter(BidColumn::Network.eq(transaction.network))
            .filter(BidColumn::Relayer.eq(transaction.relayer))
            .filter(BidColumn::Nonce.eq(transaction.nonce))
            .all(conn)
            .await?;
        for bid in bids {
            hashes.push(columns::hash("tx_hash", &bid.tx_hash)?);
        }
    }
    Ok(hashes)
}

/// Transactions of the account that are not in a final block, in the order of their nonces.
pub async fn pending(
    conn: &impl ConnectionTrait,
    network: Network,
    relayer: Address,
    limit: u64,
) -> Result<Vec<RelayTransaction>, StoreError> {
    let rows = Entity::find()
        .filter(of_account(network, relayer))
        .filter(Column::State.eq(RelayState::Pending.wire()))
        .order_by_asc(Column::Nonce)
        .limit(limit)
        .all(conn)
        .await?;
    with_bids(conn, network, relayer, rows).await
}

/// Accounts other than this one that ever signed on a network; they belong to former keys.
///
/// Each account takes one step in the index, however many transactions the account has.
pub async fn former_accounts(
    conn: &impl ConnectionTrait,
    network: Network,
    relayer: Address,
) -> Result<Vec<Address>, StoreError> {
    let (mut accounts, mut last) = (Vec::new(), String::new());
    loop {
        let next: Option<String> = Entity::find()
            .select_only()
            .column(Column::Relayer)
            .filter(Column::Network.eq(network.id()))
            .filter(Column::Relayer.gt(last))
            .order_by_asc(Column::Relayer)
            .into_tuple()
            .one(conn)
            .await?;
        let Some(next) = next else { return Ok(accounts) };
        let account = columns::address("relayer", &next)?;
        if account != relayer {
            accounts.push(account);
        }
        last = next;
    }
}

/// The transaction of the account with a nonce, whatever its state.
pub async fn find(
    conn: &impl ConnectionTrait,
    network: Network,
    relayer: Address,
    nonce: u64,
) -> Result<Option<RelayTransaction>, StoreError> {
    let nonce: i64 = columns::number("nonce", nonce)?;
    let rows = Entity::find()
        .filter(of_account(network, relayer))
        .filter(Column::Nonce.eq(nonce))
        .all(conn)
        .await?;
    Ok(with_bids(conn, network, relayer, rows).await?.pop())
}

async fn with_bids(
    conn: &impl ConnectionTrait,
    network: Network,
    relayer: Address,
    rows: Vec<Model>,
) -> Result<Vec<RelayTransaction>, StoreError> {
    let nonces: Vec<i64> = rows.iter().map(|row| row.nonce).collect();
    let bids = Bids::find()
        .filter(bids_of_account(network, relayer))
        .filter(BidColumn::Nonce.is_in(nonces))
        .order_by_asc(BidColumn::Nonce)
        .order_by_asc(BidColumn::Bid)
        .all(conn)
        .await?;
    let read = |row: Model| {
        let own = bids.iter().filter(|bid| bid.nonce == row.nonce);
        Ok(RelayTransaction {
            network,
            relayer,
            nonce: columns::number("nonce", row.nonce)?,
            platform: PlatformId(row.platform_id),
            schedule: ScheduleId(row.schedule_id),
            number: columns::number("number", row.number)?,
            step: PaymentTransaction {
                to: columns::address("to_address", &row.to_address)?,
                calldata: columns::known("calldata", &row.calldata, |text| hex::decode(text).ok())?,
                value: U256::ZERO,
            },
            gas_limit: columns::number("gas_limit", row.gas_limit)?,
            bids: own.map(bid).collect::<Result<_, _>>()?,
        })
    };
    rows.into_iter().map(read).collect()
}

/// Sets the final state of a pending transaction; `false` when it is already set.
pub async fn settle(
    conn: &impl ConnectionTrait,
    transaction: &RelayTransaction,
    state: RelayState,
) -> Result<bool, StoreError> {
    let nonce: i64 = columns::number("nonce", transaction.nonce)?;
    let result = Entity::update_many()
        .col_expr(Column::State, Expr::value(state.wire()))
        .filter(of_account(transaction.network, transaction.relayer))
        .filter(Column::Nonce.eq(nonce))
        .filter(Column::State.eq(RelayState::Pending.wire()))
        .exec(conn)
        .await?;
    Ok(result.rows_affected == 1)
}

/// Deletes the transactions of a network. Used in development, when the local chain starts again from its first block.
pub async fn forget(conn: &impl ConnectionTrait, network: Network) -> Result<(), StoreError> {
    Bids::delete_many()
        .filter(BidColumn::Network.eq(network.id()))
        .exec(conn)
        .await?;
    Entity::delete_many()
        .filter(Column::Network.eq(network.id()))
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
    async fn transactions_of_a_payment_are_found_by_their_schedule() {
        with_database(async |db| {
            let (owner, schedule) = (PlatformId("p".into()), ScheduleId("s".into()));
            let found = of_payment(&owner, Network::Sepolia, &schedule, 1);
            let plan = steps(db, &found.into_query()).await;
            assert!(
                plan.contains("USING INDEX relay_transactions_payment_idx (schedule_id=? AND number=?)"),
                "{plan}"
            );
        })
        .await;
    }
}
