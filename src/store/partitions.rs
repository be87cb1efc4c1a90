//! The partitions of PostgreSQL, one for each month; SQLite keeps each table in one piece. Source: ADR-0019.
//!
//! Everybody who reads or writes a table has a lock on it, and waits behind whoever wants it alone. So a change waits
//! for its locks a moment only, and is tried again later; and one instance at a time changes partitions.

use super::{StoreError, Tx, columns, recovery};
use crate::domain::{
    ids,
    partitions::{Month, Partition},
};
use chrono::{DateTime, Utc};
use entities::{deliveries, deliveries::Column, delivery_queue, delivery_queue::Column as Queued};
use sea_orm::{
    ColumnTrait, ConnectionTrait, DbBackend, EntityTrait, QueryFilter, QueryOrder, QuerySelect, Statement,
    sea_query::Expr,
};

/// Longest wait for a lock. Calls that come meanwhile wait behind it.
const LOCK_TIMEOUT: &str = "200ms";

/// Longest run of one statement: statistics of all partitions are read from many places of the disk.
const STATEMENT_TIMEOUT: &str = "5min";

/// Key of the advisory lock of whoever changes partitions.
const CHANGING_LOCK: i64 = 0x7072_735f_7061_7274;

/// Rows that are counted at most of what fits into no month.
const STRAYS_MAX: u64 = 10_000;

/// A table that is divided by month.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Divided {
    /// Deliveries.
    Deliveries,
    /// Tries of deliveries.
    Tries,
    /// Events.
    Events,
}

impl Divided {
    /// Each of them, in the order in which their old months may go: nothing goes before what belongs to it and is shown.
    pub const ALL: [Self; 3] = [Self::Deliveries, Self::Tries, Self::Events];

    /// Its name.
    pub fn table(self) -> &'static str {
        match self {
            Self::Deliveries => "deliveries",
            Self::Tries => "delivery_attempts",
            Self::Events => "events",
        }
    }
}

fn statement(sql: impl Into<String>) -> Statement {
    Statement::from_string(DbBackend::Postgres, sql)
}

/// The partitions of a table but the one of what fits nowhere; `None` where the table is in one piece.
pub async fn list(conn: &impl ConnectionTrait, divided: Divided) -> Result<Option<Vec<Partition>>, StoreError> {
    if conn.get_database_backend() != DbBackend::Postgres {
        return Ok(None);
    }
    let table = divided.table();
    let sql = format!(
        "SELECT part.relname::text AS name, \
         substring(pg_get_expr(relpartbound, part.oid) FROM $$FROM \\('([^']*)'\\)$$) AS first, \
         substring(pg_get_expr(relpartbound, part.oid) FROM $$TO \\('([^']*)'\\)$$) AS bound, \
         reltuples = 0 AS is_found_empty \
         FROM pg_inherits JOIN pg_class part ON part.oid = inhrelid \
         WHERE inhparent = '{table}'::regclass AND part.relname <> '{table}_default'"
    );
    let mut partitions = Vec::new();
    for row in conn.query_all_raw(statement(sql)).await? {
        let (first, bound): (Option<String>, Option<String>) = (row.try_get("", "first")?, row.try_get("", "bound")?);
        // Another instance drops it at this moment.
        let Some(bound) = bound else { continue };
        partitions.push(Partition {
            name: row.try_get("", "name")?,
            from: first.map(|first| time(&first)).transpose()?,
            until: time(&bound)?,
            is_found_empty: row.try_get("", "is_found_empty")?,
        });
    }
    Ok(Some(partitions))
}

fn time(bound: &str) -> Result<DateTime<Utc>, StoreError> {
    ids::drawn_at(bound).ok_or_else(|| columns::broken("relpartbound", bound))
}

/// Makes a transaction the one that changes partitions; tells whether it is: another one may be at it.
pub async fn begin_change(tx: &Tx) -> Result<bool, StoreError> {
    let patience =
        format!("SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'; SET LOCAL statement_timeout = '{STATEMENT_TIMEOUT}'");
    tx.execute_unprepared(&patience).await?;
    let lock = format!("SELECT pg_try_advisory_xact_lock({CHANGING_LOCK}) AS is_ours");
    let row = tx.query_one_raw(statement(lock)).await?;
    Ok(row.map_or(Ok(false), |row| row.try_get("", "is_ours"))?)
}

/// Makes the partition of a month, and moves there what was written before there was one. Needs
/// [`begin_change`].
pub async fn add(tx: &Tx, divided: Divided, month: Month) -> Result<(), StoreError> {
    let table = divided.table();
    let (first, bound) = (ids::first_at(month.begin()), ids::first_at(month.next().begin()));
    // Made apart and attached: whoever reads and writes the table meanwhile is not in the way.
    let storage = format!(
        "SELECT coalesce('WITH (' || array_to_string(reloptions, ', ') || ')', '') AS storage \
         FROM pg_class WHERE oid = '{table}_default'::regclass"
    );
    let storage: String = match tx.query_one_raw(statement(storage)).await? {
        Some(row) => row.try_get("", "storage")?,
        None => String::new(),
    };
    let of_month = format!("id >= '{first}' AND id < '{bound}'");
    let create = format!(
        "CREATE TABLE {table}_{month} (LIKE {table} INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING STORAGE) {storage}"
    );
    tx.execute_unprepared(&create).await?;
    let strays = format!("SELECT 1 FROM {table}_default WHERE {of_month} LIMIT 1");
    if tx.query_one_raw(statement(strays)).await?.is_some() {
        // The table first, as whoever uses it does: a statement that was planned before and waited for the partition alone
        // would look for its rows where they are no longer, and change none.
        let closed = format!("LOCK TABLE ONLY {table}, {table}_default IN ACCESS EXCLUSIVE MODE");
        tx.execute_unprepared(&closed).await?;
        let moved = format!(
            "WITH strays AS (DELETE FROM {table}_default WHERE {of_month} RETURNING *) \
             INSERT INTO {table}_{month} SELECT * FROM strays"
        );
        tx.execute_unprepared(&moved).await?;
    }
    // Refused when something was written there since; it is tried again.
    let attach =
        format!("ALTER TABLE {table} ATTACH PARTITION {table}_{month} FOR VALUES FROM ('{first}') TO ('{bound}')");
    tx.execute_unprepared(&attach).await?;
    Ok(())
}

/// Whether something of the rows whose ids were drawn before a time is needed: a delivery that waits for a try or a round,
/// and what belongs to a delivery that is kept.
pub async fn is_needed(
    conn: &impl ConnectionTrait,
    divided: Divided,
    before: DateTime<Utc>,
) -> Result<bool, StoreError> {
    match divided {
        Divided::Deliveries => {
            let is_queued = has_before::<delivery_queue::Entity>(conn, Queued::Id, before, None).await?;
            let rounds = (recovery::is_waiting(), Column::RecoverAt);
            Ok(is_queued || has_before::<deliveries::Entity>(conn, Column::Id, before, Some(rounds)).await?)
        }
        // A try is drawn after its delivery, and that after its event.
        Divided::Tries | Divided::Events => has_before::<deliveries::Entity>(conn, Column::EventId, before, None).await,
    }
}

/// Whether there is a row whose id, or that of what it belongs to, was drawn before a time, by an index of the ids or by a
/// partial one: its condition and its column.
async fn has_before<E: EntityTrait>(
    conn: &impl ConnectionTrait,
    id: E::Column,
    before: DateTime<Utc>,
    partial: Option<(Expr, E::Column)>,
) -> Result<bool, StoreError> {
    let (condition, order) = partial.unwrap_or((Expr::value(true), id));
    // In an order, because that leads to the end of an index however many rows there are.
    let found: Option<String> = E::find()
        .select_only()
        .column(id)
        .filter(id.lt(ids::first_at(before)))
        .filter(condition)
        .order_by_asc(order)
        .limit(1)
        .into_tuple()
        .one(conn)
        .await?;
    Ok(found.is_some())
}

/// Keeps everybody else away from a partition, and its table, until the transaction ends. Needs [`begin_change`].
pub async fn close(tx: &Tx, divided: Divided, partition: &Partition) -> Result<(), StoreError> {
    // The table first, as whoever uses it does.
    let sql = format!(
        "LOCK TABLE ONLY {}, {} IN ACCESS EXCLUSIVE MODE",
        divided.table(),
        partition.name
    );
    tx.execute_unprepared(&sql).await?;
    Ok(())
}

/// Forgets a partition with all of its rows. Needs [`close`].
pub async fn drop(tx: &Tx, partition: &Partition) -> Result<(), StoreError> {
    tx.execute_unprepared(&format!("DROP TABLE {}", partition.name)).await?;
    Ok(())
}

/// Whether a partition holds anything.
pub async fn is_empty(conn: &impl ConnectionTrait, partition: &Partition) -> Result<bool, StoreError> {
    let sql = format!("SELECT 1 FROM {} LIMIT 1", partition.name);
    Ok(conn.query_one_raw(statement(sql)).await?.is_none())
}

/// How many rows fit into no month, counted up to ten thousand. Needs a table that is divided.
pub async fn strays(conn: &impl ConnectionTrait, divided: Divided) -> Result<u64, StoreError> {
    let sql = format!(
        "SELECT count(*) AS strays FROM (SELECT 1 FROM {}_default LIMIT {STRAYS_MAX}) AS counted",
        divided.table()
    );
    let row = conn.query_one_raw(statement(sql)).await?;
    let strays: i64 = row.map_or(Ok(0), |row| row.try_get("", "strays"))?;
    columns::number("strays", strays)
}

/// Whether a table has grown by half, or shrunk to half, since the rows of all partitions together were looked at. The server looks
/// at each partition by itself alone, and plans joins by what it knows of all.
pub async fn is_unmeasured(conn: &impl ConnectionTrait, divided: Divided) -> Result<bool, StoreError> {
    let sql = format!(
        "SELECT rows.now > 1000 AND (whole.reltuples * 1.5 < rows.now OR whole.reltuples > rows.now * 2) AS is_unmeasured \
         FROM pg_class whole, LATERAL (SELECT sum(greatest(reltuples, 0)) AS now FROM pg_inherits \
         JOIN pg_class part ON part.oid = inhrelid WHERE inhparent = whole.oid) AS rows \
         WHERE whole.oid = '{}'::regclass",
        divided.table()
    );
    let row = conn.query_one_raw(statement(sql)).await?;
    Ok(row.map_or(Ok(false), |row| row.try_get("", "is_unmeasured"))?)
}

/// Has the server look at the rows of all partitions together. Needs [`begin_change`].
pub async fn measure(tx: &Tx, divided: Divided) -> Result<(), StoreError> {
    tx.execute_unprepared(&format!("ANALYZE {}", divided.table())).await?;
    Ok(())
}
