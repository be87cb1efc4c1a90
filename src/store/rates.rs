//! Readings of the rate feeds. They have no owner: every platform gets the same rate.

use super::{StoreError, columns};
use crate::domain::{
    pair::Pair,
    rate::Rate,
    rates::{FeedPrice, RateFlaw, RateProvider, ReadingResult, ReadingState, StoredReading},
};
use chrono::{DateTime, Utc};
use entities::rates::{ActiveModel, Column, Entity, Model};
use sea_orm::{
    ColumnTrait, Condition, ConnectionTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect, QueryTrait, Select,
    sea_query::{Expr, OnConflict},
};

fn to_row(id: String, reading: &StoredReading) -> Model {
    let (price, flaw) = match reading.finding {
        ReadingResult::Accepted(price) | ReadingResult::Held(price) => (Some(price), None),
        ReadingResult::Refused(flaw) => (None, Some(flaw)),
    };
    Model {
        id,
        symbol: reading.pair.symbol.clone(),
        invoice: reading.pair.invoice.clone(),
        read_at: reading.read_at,
        state: reading.finding.state().wire().to_owned(),
        provider: reading.provider.wire().to_owned(),
        rate: price.map(|price| price.rate.to_string()),
        as_of: price.map(|price| price.as_of),
        flaw: flaw.map(|flaw| flaw.wire().to_owned()),
    }
}

fn from_row(row: &Model) -> Result<StoredReading, StoreError> {
    let rate = row.rate.as_deref().map(rate).transpose()?;
    let price = rate.zip(row.as_of).map(|(rate, as_of)| FeedPrice { rate, as_of });
    let flaw = row.flaw.as_deref();
    let flaw = flaw
        .map(|text| columns::known("flaw", text, RateFlaw::from_wire))
        .transpose()?;
    let finding = match (
        columns::known("state", &row.state, ReadingState::from_wire)?,
        price,
        flaw,
    ) {
        (ReadingState::Accepted, Some(price), _) => ReadingResult::Accepted(price),
        (ReadingState::Held, Some(price), _) => ReadingResult::Held(price),
        (ReadingState::Refused, _, Some(flaw)) => ReadingResult::Refused(flaw),
        _ => return Err(columns::broken("state", &row.state)),
    };
    Ok(StoredReading {
        pair: Pair::new(&row.symbol, &row.invoice),
        read_at: row.read_at,
        provider: columns::known("provider", &row.provider, RateProvider::from_wire)?,
        finding,
    })
}

/// Reads a rate.
pub(super) fn rate(text: &str) -> Result<Rate, StoreError> {
    columns::known("rate", text, |text| Rate::parse(text).ok())
}

fn of_pair(pair: &Pair) -> Condition {
    Condition::all()
        .add(Column::Symbol.eq(pair.symbol.as_str()))
        .add(Column::Invoice.eq(pair.invoice.as_str()))
}

/// Stores readings, each with a fresh id. A reading of a pair and time that is already stored is left out.
pub async fn insert_all(
    conn: &impl ConnectionTrait,
    readings: Vec<(String, &StoredReading)>,
) -> Result<(), StoreError> {
    let conflict = OnConflict::columns([Column::Symbol, Column::Invoice, Column::ReadAt])
        .do_nothing()
        .to_owned();
    for readings in readings.chunks(columns::ROWS_MAX) {
        let rows = readings.iter().map(|(id, reading)| to_row(id.clone(), reading).into());
        Entity::insert_many(rows.collect::<Vec<ActiveModel>>())
            .on_conflict(conflict.clone())
            .exec_without_returning(conn)
            .await?;
    }
    Ok(())
}

/// Stores a reading; it replaces an existing reading of the same pair and time.
pub async fn replace(conn: &impl ConnectionTrait, id: String, reading: &StoredReading) -> Result<(), StoreError> {
    let conflict = OnConflict::columns([Column::Symbol, Column::Invoice, Column::ReadAt])
        .update_columns([
            Column::State,
            Column::Provider,
            Column::Rate,
            Column::AsOf,
            Column::Flaw,
        ])
        .to_owned();
    Entity::insert(ActiveModel::from(to_row(id, reading)))
        .on_conflict(conflict)
        .exec_without_returning(conn)
        .await?;
    Ok(())
}

/// The newest reading of a pair at or before a time.
pub async fn newest(
    conn: &impl ConnectionTrait,
    pair: &Pair,
    time: DateTime<Utc>,
) -> Result<Option<StoredReading>, StoreError> {
    let row = Entity::find()
        .filter(of_pair(pair))
        .filter(Column::ReadAt.lte(time))
        .order_by_desc(Column::ReadAt)
        .one(conn)
        .await?;
    row.as_ref().map(from_row).transpose()
}

/// The state is a literal, so that both databases recognise that the partial index of accepted readings covers the
/// query.
fn is_accepted() -> Expr {
    Expr::cust("state = 'accepted'")
}

fn newest_accepted(pair: &Pair) -> Select<Entity> {
    Entity::find()
        .filter(of_pair(pair))
        .filter(is_accepted())
        .order_by_desc(Column::ReadAt)
        .limit(1)
}

/// The newest accepted rate of a pair.
pub async fn last_accepted(conn: &impl ConnectionTrait, pair: &Pair) -> Result<Option<StoredReading>, StoreError> {
    let row = newest_accepted(pair).one(conn).await?;
    row.as_ref().map(from_row).transpose()
}

/// The newest reading of a pair that is not held back. All later readings are held back.
pub async fn last_decided(conn: &impl ConnectionTrait, pair: &Pair) -> Result<Option<StoredReading>, StoreError> {
    let row = Entity::find()
        .filter(of_pair(pair))
        .filter(Column::State.ne(ReadingState::Held.wire()))
        .order_by_desc(Column::ReadAt)
        .one(conn)
        .await?;
    row.as_ref().map(from_row).transpose()
}

/// Readings of a pair after a time, or all of its readings, the newest first, at most `limit`.
pub async fn after(
    conn: &impl ConnectionTrait,
    pair: &Pair,
    moment: Option<DateTime<Utc>>,
    limit: u64,
) -> Result<Vec<StoredReading>, StoreError> {
    let rows = Entity::find()
        .filter(of_pair(pair))
        .apply_if(moment, |query, moment| query.filter(Column::ReadAt.gt(moment)))
        .order_by_desc(Column::ReadAt)
        .limit(limit)
        .all(conn)
        .await?;
    rows.iter().map(from_row).collect()
}

/// Accepts the readings of a pair that were held back from `from` to `to`, both included; returns how many.
pub async fn accept_held(
    conn: &impl ConnectionTrait,
    pair: &Pair,
    from: DateTime<Utc>,
    to: DateTime<Utc>,
) -> Result<u64, StoreError> {
    let result = Entity::update_many()
        .col_expr(Column::State, Expr::value(ReadingState::Accepted.wire()))
        .filter(of_pair(pair))
        .filter(Column::ReadAt.between(from, to))
        .filter(Column::State.eq(ReadingState::Held.wire()))
        .exec(conn)
        .await?;
    Ok(result.rows_affected)
}

/// When the feeds were last read.
pub async fn last_read(conn: &impl ConnectionTrait) -> Result<Option<DateTime<Utc>>, StoreError> {
    let newest = Entity::find()
        .select_only()
        .column(Column::ReadAt)
        .order_by_desc(Column::ReadAt)
        .limit(1);
    Ok(newest.into_tuple().one(conn).await?)
}

/// Deletes the oldest readings from before a time, at most `limit`; returns how many.
pub async fn forget(conn: &impl ConnectionTrait, before: DateTime<Utc>, limit: u64) -> Result<u64, StoreError> {
    let condition = Condition::all().add(Column::ReadAt.lt(before));
    columns::delete_oldest::<Entity>(conn, Column::Id, Column::ReadAt, condition, limit).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::plans::{steps, with_database};

    #[tokio::test]
    async fn the_last_accepted_rate_is_found_by_a_partial_index() {
        with_database(async |db| {
            let plan = steps(db, &newest_accepted(&Pair::new("USDC", "USD")).into_query()).await;
            assert_eq!(
                plan,
                "SEARCH rates USING INDEX rates_accepted (symbol=? AND invoice=?)\n"
            );
        })
        .await;
    }
}
