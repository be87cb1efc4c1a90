//! PostgreSQL keeps what grows in partitions by month; this divides a table, and unites it again. Source: ADR-0019.

use chrono::{DateTime, Datelike, Days, Months, NaiveTime, Utc};
use sea_orm_migration::{
    prelude::*,
    sea_orm::{DbBackend, Statement},
};

/// The partition of today reaches at least so far ahead: time for the service to make those of the months that follow.
const DAYS_AHEAD: u64 = 7;

/// Digits of ids.
const CROCKFORD: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/// Makes a table one that is partitioned by the time in its ids.
///
/// Its rows stay where they are: the table becomes the partition of everything before a month that is to come. What fits
/// nowhere has a partition too. Names of columns, indexes and constraints stay those of the table.
pub(crate) async fn divide(manager: &SchemaManager<'_>, table: &str) -> Result<(), DbErr> {
    let connection = manager.get_connection();
    let bound = first_id_behind(now(manager).await?);
    let indexes = take_indexes(manager, table, "before").await?;
    let references = foreign_keys(manager, table).await?;
    let storage = storage(manager, table).await?;
    let run = async |sql: String| connection.execute_unprepared(&sql).await;
    run(format!("ALTER TABLE {table} RENAME TO {table}_before")).await?;
    run(format!(
        "CREATE TABLE {table} (LIKE {table}_before INCLUDING DEFAULTS INCLUDING STORAGE) PARTITION BY RANGE (id)"
    ))
    .await?;
    for statement in indexes.iter().chain(&references) {
        run(statement.clone()).await?;
    }
    run(format!(
        "CREATE TABLE {table}_default PARTITION OF {table} DEFAULT {storage}"
    ))
    .await?;
    // Ids that are drawn by a clock that runs ahead, and those that are none, fit into no month.
    run(format!(
        "WITH strays AS (DELETE FROM {table}_before WHERE id >= '{bound}' RETURNING *) \
         INSERT INTO {table} SELECT * FROM strays"
    ))
    .await?;
    run(format!(
        "ALTER TABLE {table} ATTACH PARTITION {table}_before FOR VALUES FROM (MINVALUE) TO ('{bound}')"
    ))
    .await?;
    Ok(())
}

/// Makes one table of the partitions again.
pub(crate) async fn unite(manager: &SchemaManager<'_>, table: &str) -> Result<(), DbErr> {
    let connection = manager.get_connection();
    let storage = storage(manager, &format!("{table}_default")).await?;
    let indexes = take_indexes(manager, table, "divided").await?;
    let references = foreign_keys(manager, table).await?;
    let run = async |sql: String| connection.execute_unprepared(&sql).await;
    run(format!("ALTER TABLE {table} RENAME TO {table}_divided")).await?;
    run(format!(
        "CREATE TABLE {table} (LIKE {table}_divided INCLUDING DEFAULTS INCLUDING STORAGE) {storage}"
    ))
    .await?;
    run(format!("INSERT INTO {table} SELECT * FROM {table}_divided")).await?;
    run(format!("DROP TABLE {table}_divided")).await?;
    for statement in indexes.iter().chain(&references) {
        run(statement.clone()).await?;
    }
    Ok(())
}

/// The smallest id of the first month that begins after the days that are ahead.
fn first_id_behind(now: DateTime<Utc>) -> String {
    let ahead = now.date_naive() + Days::new(DAYS_AHEAD);
    let month = ahead.with_day(1).unwrap_or(ahead) + Months::new(1);
    first_id(month.and_time(NaiveTime::MIN).and_utc().timestamp_millis())
}

/// The smallest ULID of a time: 48 bits of milliseconds, and 80 bits of nothing.
fn first_id(at_ms: i64) -> String {
    let digit = |position: u32| {
        let index = usize::try_from((at_ms >> (5 * position)) & 31).unwrap_or(0);
        char::from(CROCKFORD[index])
    };
    let time: String = (0..10).rev().map(digit).collect();
    format!("{time}{}", "0".repeat(16))
}

async fn now(manager: &SchemaManager<'_>) -> Result<DateTime<Utc>, DbErr> {
    let asked = Statement::from_string(DbBackend::Postgres, "SELECT now() AS now");
    let row = manager.get_connection().query_one_raw(asked).await?;
    row.ok_or_else(|| DbErr::Migration("the server does not tell the time".to_owned()))?
        .try_get("", "now")
}

/// Gives the indexes of a table other names; returns the statements that make them anew under their own.
async fn take_indexes(manager: &SchemaManager<'_>, table: &str, suffix: &str) -> Result<Vec<String>, DbErr> {
    let connection = manager.get_connection();
    let sql = "SELECT own.relname::text AS name, con.conname IS NOT NULL AS is_key, \
               coalesce(pg_get_constraintdef(con.oid), replace(pg_get_indexdef(own.oid), ' ON ONLY ', ' ON ')) AS made \
               FROM pg_index JOIN pg_class own ON own.oid = indexrelid \
               LEFT JOIN pg_constraint con ON con.conindid = indexrelid AND con.contype IN ('p', 'u') \
               WHERE indrelid = $1::regclass ORDER BY 1";
    let mut made = Vec::new();
    for row in connection.query_all_raw(about(sql, table)).await? {
        let name: String = row.try_get("", "name")?;
        let statement: String = row.try_get("", "made")?;
        let rename = format!("ALTER INDEX {name} RENAME TO {name}_{suffix}");
        connection.execute_unprepared(&rename).await?;
        made.push(match row.try_get("", "is_key")? {
            true => format!("ALTER TABLE {table} ADD CONSTRAINT {name} {statement}"),
            false => statement,
        });
    }
    Ok(made)
}

/// The statements that make the foreign keys of a table anew.
async fn foreign_keys(manager: &SchemaManager<'_>, table: &str) -> Result<Vec<String>, DbErr> {
    let sql = "SELECT conname::text AS name, pg_get_constraintdef(oid) AS made FROM pg_constraint \
               WHERE conrelid = $1::regclass AND contype = 'f' ORDER BY 1";
    let rows = manager.get_connection().query_all_raw(about(sql, table)).await?;
    let made = rows.iter().map(|row| {
        let (name, made): (String, String) = (row.try_get("", "name")?, row.try_get("", "made")?);
        Ok(format!("ALTER TABLE {table} ADD CONSTRAINT {name} {made}"))
    });
    made.collect()
}

/// How the rows of a table are stored, as words for another one.
async fn storage(manager: &SchemaManager<'_>, table: &str) -> Result<String, DbErr> {
    let sql = "SELECT coalesce('WITH (' || array_to_string(reloptions, ', ') || ')', '') AS storage \
               FROM pg_class WHERE oid = $1::regclass";
    let row = manager.get_connection().query_one_raw(about(sql, table)).await?;
    row.map_or(Ok(String::new()), |row| row.try_get("", "storage"))
}

fn about(sql: &str, table: &str) -> Statement {
    Statement::from_sql_and_values(DbBackend::Postgres, sql, [table.into()])
}
