//! The partitions of PostgreSQL, one for each month; SQLite does not partition tables. Source: ADR-0019.
//!
//! Changing partitions needs exclusive locks. While a change waits for such a lock, every new reader and writer of the
//! table waits behind it. So a change waits only briefly and is otherwise retried later, and only one instance at a
//! time changes partitions.

use super::{StoreError, Tx, columns, recovery};
use crate::domain::{
    ids,
    partitions::{Month, Partition},
};
use chrono::{DateTime, Utc};
use entities::{deliveries, deliveries::Column, delivery_queue, delivery_queue::Column as QueueColumn};
use sea_orm::{
    ColumnTrait, ConnectionTrait, DbBackend, EntityTrait, QueryFilter, QueryOrder, QuerySelect, Statement,
    sea_query::Expr,
};

/// Longest wait for a lock. Statements that arrive meanwhile wait behind it.
const LOCK_TIMEOUT: &str = "200ms";

/// Longest run time of one statement. Reading the statistics of all partitions takes long, because they are in many
/// places on the disk.
const STATEMENT_TIMEOUT: &str = "5min";

/// Key of the advisory lock of the instance that changes partitions.
const CHANGING_LOCK: i64 = 0x7072_735f_7061_7274;

/// Maximum number that the count of rows outside all monthly partitions can return.
const STRAYS_MAX: u64 = 10_000;

/// A table that is partitioned by month.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MonthlyTable {
    /// Deliveries.
    Deliveries,
    /// Attempts of deliveries.
    Tries,
    /// Events.
    Events,
}

impl MonthlyTable {
    /// The partitioned tables, in the order in which their old months may be dropped. Deliveries come first, because
    /// attempts and events are needed while their deliveries exist.
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

/// The partitions of a table without the default partition; `None` where the table is not partitioned.
pub async fn list(conn: &impl ConnectionTrait, divided: MonthlyTable) -> Result<Option<Vec<Partition>>, StoreError> {
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
        // The bounds are missing if another instance is dropping the partition.
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

/// Takes the lock for partition changes until the transaction ends; `false` when another change is running.
pub async fn begin_change(tx: &Tx) -> Result<bool, StoreError> {
    let patience =
        format!("SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'; SET LOCAL statement_timeout = '{STATEMENT_TIMEOUT}'");
    tx.execute_unprepared(&patience).await?;
    let lock = format!("SELECT pg_try_advisory_xact_lock({CHANGING_LOCK}) AS is_ours");
    let row = tx.query_one_raw(statement(lock)).await?;
    Ok(row.map_or(Ok(false), |row| row.try_get("", "is_ours"))?)
}

/// Creates the partition of a month, and moves existing rows of the month into it. Needs [`begin_change`].
pub async fn add(tx: &Tx, divided: MonthlyTable, month: Month) -> Result<(), StoreError> {
    let table = divided.table();
    let (first, bound) = (ids::first_at(month.begin()), ids::first_at(month.next().begin()));
    // The partition is created separately and then attached, so that concurrent readers and writers of the table are
    // not blocked.
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
        // The table is locked before the partition, the order in which other statements lock them. Otherwise a
        // statement that is already planned and waits only for the default partition would then look for its rows
        // there, and not find the moved ones.
        let closed = format!("LOCK TABLE ONLY {table}, {table}_default IN ACCESS EXCLUSIVE MODE");
        tx.execute_unprepared(&closed).await?;
        let moved = format!(
            "WITH strays AS (DELETE FROM {table}_default WHERE {of_month} RETURNING *) \
             INSERT INTO {table}_{month} SELECT * FROM strays"
        );
        tx.execute_unprepared(&moved).await?;
    }
    // Attaching fails if rows were written to the default partition since; the change is then retried.
    let attach =
        format!("ALTER TABLE {table} ATTACH PARTITION {table}_{month} FOR VALUES FROM ('{first}') TO ('{bound}')");
    tx.execute_unprepared(&attach).await?;
    Ok(())
}

/// Whether a table still needs rows whose ids were created before a time. A delivery is needed while it is queued or
/// waits for a recovery round. An attempt or an event is needed while its delivery exists.
pub async fn is_needed(
    conn: &impl ConnectionTrait,
    divided: MonthlyTable,
    before: DateTime<Utc>,
) -> Result<bool, StoreError> {
    match divided {
        MonthlyTable::Deliveries => {
            let is_queued = has_before::<delivery_queue::Entity>(conn, QueueColumn::Id, before, None).await?;
            let rounds = (recovery::is_waiting(), Column::RecoverAt);
            Ok(is_queued || has_before::<deliveries::Entity>(conn, Column::Id, before, Some(rounds)).await?)
        }
        // The id of an attempt is created after the id of its delivery, which is created after the id of its event.
        MonthlyTable::Tries | MonthlyTable::Events => {
            has_before::<deliveries::Entity>(conn, Column::EventId, before, None).await
        }
    }
}

/// Whether a row exists with a value of the column `id` from before a time. The query uses the index of this column, or
/// the partial index whose condition and column `partial` gives.
async fn has_before<E: EntityTrait>(
    conn: &impl ConnectionTrait,
    id: E::Column,
    before: DateTime<Utc>,
    partial: Option<(Expr, E::Column)>,
) -> Result<bool, StoreError> {
    let (condition, order) = partial.unwrap_or((Expr::value(true), id));
    // The order makes the database read one end of an index, however many rows there are.
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

/// Locks a partition and its table exclusively until the transaction ends. Needs [`begin_change`].
pub async fn close(tx: &Tx, divided: MonthlyTable, partition: &Partition) -> Result<(), StoreError> {
    // The table is locked first, as by every statement that uses it.
    let sql = format!(
        "LOCK TABLE ONLY {}, {} IN ACCESS EXCLUSIVE MODE",
        divided.table(),
        partition.name
    );
    tx.execute_unprepared(&sql).await?;
    Ok(())
}

/// Drops a partition with all of its rows. Needs [`close`].
pub async fn drop(tx: &Tx, partition: &Partition) -> Result<(), StoreError> {
    tx.execute_unprepared(&format!("DROP TABLE {}", partition.name)).await?;
    Ok(())
}

/// Whether a partition is empty.
pub async fn is_empty(conn: &impl ConnectionTrait, partition: &Partition) -> Result<bool, StoreError> {
    let sql = format!("SELECT 1 FROM {} LIMIT 1", partition.name);
    Ok(conn.query_one_raw(statement(sql)).await?.is_none())
}

/// How many rows are in no monthly partition but in the default partition, counted up to ten thousand. Needs a
/// partitioned table.
pub async fn strays(conn: &impl ConnectionTrait, divided: MonthlyTable) -> Result<u64, StoreError> {
    let sql = format!(
        "SELECT count(*) AS strays FROM (SELECT 1 FROM {}_default LIMIT {STRAYS_MAX}) AS counted",
        divided.table()
    );
    let row = conn.query_one_raw(statement(sql)).await?;
    let strays: i64 = row.map_or(Ok(0), |row| row.try_get("", "strays"))?;
    columns::number("strays", strays)
}

/// Whether a table with more than 1,000 rows has grown by half, or shrunk to half, since its partitions were last
/// analysed together. The server automatically analyses only single partitions, but plans joins by the statistics of
/// the whole table.
pub async fn is_unmeasured(conn: &impl ConnectionTrait, divided: MonthlyTable) -> Result<bool, StoreError> {
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

/// Analyses all partitions together. Needs [`begin_change`].
pub async fn measure(tx: &Tx, divided: MonthlyTable) -> Result<(), StoreError> {
    tx.execute_unprepared(&format!("ANALYZE {}", divided.table())).await?;
    Ok(())
}
