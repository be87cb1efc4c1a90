//! Who works with the database: instances that serve announce themselves, and whoever takes the schema back waits until
//! none is left.
//!
//! An announcement is a lock that ends with its process, however that ends: an advisory one of PostgreSQL, a locked file
//! beside the database of SQLite.

use super::{Db, StoreError};
use sea_orm::{ConnectOptions, ConnectionTrait, Database, DatabaseConnection, Statement};
use std::{
    fs::{File, OpenOptions, TryLockError},
    os::unix::fs::OpenOptionsExt,
    path::PathBuf,
    time::Duration,
};

/// Key of the advisory lock of instances that serve.
const SERVING_LOCK: i64 = 0x7072_735f_7365_7276;

/// Key of the one that they have too, so that one whose session was lost is noticed by whoever took the first meanwhile.
const RETURNING_LOCK: i64 = 0x7072_735f_7265_7475;

/// Pause between two announcements of an instance that serves.
pub const ANNOUNCED_EVERY: Duration = Duration::from_secs(2);

/// How long whoever takes the schema back waits for instances whose session was lost to announce themselves again.
const RETURNS_WITHIN: Duration = Duration::from_secs(7);

/// Longest wait for a connection of PostgreSQL.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// An announcement; it holds until it is dropped.
#[derive(Debug)]
pub struct Presence(Held);

#[derive(Debug)]
enum Held {
    /// Kept for its lock.
    File(#[expect(dead_code, reason = "the lock ends when the file is closed")] File),
    Connection(DatabaseConnection),
}

/// What the announcement is made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Intent {
    /// To serve, beside others who do.
    Serve,
    /// To change what others rely on.
    TakeBack,
}

impl Presence {
    /// Announces this process; `None` when others stand against it. On PostgreSQL, taking back waits for instances whose
    /// session was lost a moment ago.
    ///
    /// Errors: the database cannot be reached, or the file beside it cannot be made.
    pub async fn announce(db: &Db, intent: Intent) -> Result<Option<Self>, StoreError> {
        let Some(path) = db.file() else {
            let mut options = ConnectOptions::new(db.url());
            options
                .max_connections(1)
                .acquire_timeout(CONNECT_TIMEOUT)
                .idle_timeout(None)
                .max_lifetime(None)
                .set_application_name("prs presence")
                .record_stmt_in_spans(false);
            let connection = Database::connect(options).await?;
            let mut is_held = lock(&connection, SERVING_LOCK, intent).await?;
            if is_held && intent == Intent::TakeBack {
                tokio::time::sleep(RETURNS_WITHIN).await;
            }
            is_held = is_held && lock(&connection, RETURNING_LOCK, intent).await?;
            return Ok(is_held.then_some(Self(Held::Connection(connection))));
        };
        let file = lock_file(&path).map_err(|error| StoreError::Unavailable(error.into()))?;
        let taken = match intent {
            Intent::Serve => file.try_lock_shared(),
            Intent::TakeBack => file.try_lock(),
        };
        match taken {
            Ok(()) => Ok(Some(Self(Held::File(file)))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(StoreError::Unavailable(error.into())),
        }
    }

    /// Announces a process that serves once more, when PostgreSQL was restarted and forgot it.
    pub async fn renew(&self) -> Result<bool, StoreError> {
        match &self.0 {
            Held::File(_) => Ok(true),
            Held::Connection(connection) => {
                let has_returned = lock(connection, RETURNING_LOCK, Intent::Serve).await?;
                Ok(lock(connection, SERVING_LOCK, Intent::Serve).await? && has_returned)
            }
        }
    }
}

/// Takes the lock of this session, unless it has it.
async fn lock(connection: &DatabaseConnection, key: i64, intent: Intent) -> Result<bool, StoreError> {
    let (mode, function) = match intent {
        Intent::Serve => ("ShareLock", "pg_try_advisory_lock_shared"),
        Intent::TakeBack => ("ExclusiveLock", "pg_try_advisory_lock"),
    };
    // A lock of 64 bits is listed as its two halves.
    let sql = format!(
        "SELECT CASE WHEN EXISTS (SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid() \
         AND mode = '{mode}' AND granted AND (classid::bigint << 32) + objid::bigint = {key}) \
         THEN true ELSE {function}({key}) END AS held"
    );
    let statement = Statement::from_string(connection.get_database_backend(), sql);
    let row = connection.query_one_raw(statement).await?;
    match row {
        Some(row) => Ok(row.try_get("", "held")?),
        None => Ok(false),
    }
}

fn lock_file(database: &std::path::Path) -> std::io::Result<File> {
    let mut path = PathBuf::from(database).into_os_string();
    path.push(".lock");
    OpenOptions::new()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .mode(0o600)
        .open(path)
}
