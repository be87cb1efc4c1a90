//! Why a PostgreSQL server cannot be reached. The connection pool itself only reports a timeout.

use sea_orm::sqlx::{Connection, PgConnection, postgres::PgConnectOptions};
use std::{str::FromStr, time::Duration};

/// Longest wait for the cause.
const CAUSE_TIMEOUT: Duration = Duration::from_millis(1_500);

/// Why this process cannot reach the server; `None` when it can. The text contains the address and never a password.
pub(super) async fn obstacle(url: &str) -> Option<String> {
    let options = match PgConnectOptions::from_str(url) {
        Ok(options) => options,
        Err(error) => return Some(format!("the database URL is invalid: {error}")),
    };
    let (host, port) = (options.get_host().to_owned(), options.get_port());
    let cause = match tokio::time::timeout(CAUSE_TIMEOUT, PgConnection::connect_with(&options)).await {
        Ok(Ok(connection)) => {
            // The result of closing does not matter.
            let _ = connection.close().await;
            return None;
        }
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no response within {CAUSE_TIMEOUT:?}"),
    };
    Some(format!("PostgreSQL at {host}:{port}: {cause}"))
}
