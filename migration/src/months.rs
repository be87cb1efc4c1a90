//! PostgreSQL partitions growing tables by month. Source: ADR-0019.

use chrono::{DateTime, Datelike, Days, Months, NaiveTime, Utc};
use sea_orm_migration::{
    prelude::*,
    sea_orm::{DbBackend, Statement},
};

/// Minimum number of days from the creation of a table to the end of its first partition. In this time the service
/// creates the partitions of the following months.
const DAYS_AHEAD: u64 = 7;

/// Digits of ids.
const CROCKFORD: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/// Creates a table. On PostgreSQL the table is partitioned by the time in its ids: the first partition contains every
/// row before a future month, and a default partition contains all later rows. `storage` gives the storage parameters
/// of the partitions.
pub(crate) async fn create_divided(
    manager: &SchemaManager<'_>,
    name: &str,
    table: TableCreateStatement,
    storage: &str,
) -> Result<(), DbErr> {
    if manager.get_database_backend() != DbBackend::Postgres {
        return manager.create_table(table).await;
    }
    let whole = DbBackend::Postgres.build(&table).sql;
    let bound = first_id_behind(now(manager).await?);
    for statement in [
        format!("{whole} PARTITION BY RANGE (id)"),
        format!("CREATE TABLE {name}_before PARTITION OF {name} FOR VALUES FROM (MINVALUE) TO ('{bound}') {storage}"),
        format!("CREATE TABLE {name}_default PARTITION OF {name} DEFAULT {storage}"),
    ] {
        manager.get_connection().execute_unprepared(&statement).await?;
    }
    Ok(())
}

/// The smallest id of the first month that begins at least [`DAYS_AHEAD`] after `now`.
fn first_id_behind(now: DateTime<Utc>) -> String {
    let ahead = now.date_naive() + Days::new(DAYS_AHEAD);
    let month = ahead.with_day(1).unwrap_or(ahead) + Months::new(1);
    first_id(month.and_time(NaiveTime::MIN).and_utc().timestamp_millis())
}

/// The smallest ULID of a time: 48 bits of milliseconds, and 80 zero bits.
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
    row.ok_or_else(|| DbErr::Migration("the time of the server could not be read".to_owned()))?
        .try_get("", "now")
}
