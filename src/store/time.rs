//! The clock of the database, the one that all instances share.

use super::StoreError;
use chrono::{DateTime, Utc};
use sea_orm::{ConnectionTrait, DbBackend, Statement};

/// What the clock of the database shows. That of SQLite is the clock of the machine.
pub async fn now(conn: &impl ConnectionTrait) -> Result<DateTime<Utc>, StoreError> {
    let backend = conn.get_database_backend();
    let sql = match backend {
        // Unlike now(), it goes on within a transaction.
        DbBackend::Postgres => "SELECT clock_timestamp() AS now",
        _ => "SELECT strftime('%Y-%m-%dT%H:%M:%f+00:00', 'now') AS now",
    };
    let row = conn.query_one_raw(Statement::from_string(backend, sql)).await?;
    let row = row.ok_or_else(|| StoreError::Broken(anyhow::anyhow!("the database does not tell the time")))?;
    Ok(row.try_get("", "now")?)
}
