//! Why a PostgreSQL server cannot be reached: its pool only says that time ran out.

use sea_orm::sqlx::{Connection, PgConnection, postgres::PgConnectOptions};
use std::{str::FromStr, time::Duration};

/// Longest wait for the cause.
const CAUSE_TIMEOUT: Duration = Duration::from_millis(1_500);

/// What stands between this process and the server, with its address and never with a password; `None` when nothing does.
pub(super) async fn obstacle(url: &str) -> Option<String> {
    let options = match PgConnectOptions::from_str(url) {
        Ok(options) => options,
        Err(error) => return Some(format!("the address of the database cannot be read: {error}")),
    };
    let (host, port) = (options.get_host().to_owned(), options.get_port());
    let cause = match tokio::time::timeout(CAUSE_TIMEOUT, PgConnection::connect_with(&options)).await {
        Ok(Ok(connection)) => {
            // Whether it closes well changes nothing.
            let _ = connection.close().await;
            return None;
        }
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no answer within {CAUSE_TIMEOUT:?}"),
    };
    Some(format!("PostgreSQL at {host}:{port}: {cause}"))
}
