//! Processes that use the database. Instances that serve announce themselves, and a process that undoes migrations
//! requires that no instance serves.
//!
//! An announcement is a lock that ends with its process, even after a crash: an advisory lock of PostgreSQL, or a
//! locked file next to the database of SQLite.

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

/// Key of a second advisory lock that instances that serve take. After an instance lost its session, it takes this lock
/// before the first one. So a process that undoes migrations notices the instance even if this process already has the
/// first lock.
const RETURNING_LOCK: i64 = 0x7072_735f_7265_7475;

/// Pause between two announcements of an instance that serves.
pub const ANNOUNCED_EVERY: Duration = Duration::from_secs(2);

/// How long a process that undoes migrations waits for instances whose session was lost to announce themselves again.
const RETURNS_WITHIN: Duration = Duration::from_secs(7);

/// Longest wait for a connection of PostgreSQL.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The announcement of this process to other processes. It ends when this value is dropped.
#[derive(Debug)]
pub struct InstancePresence(PresenceLock);

#[derive(Debug)]
enum PresenceLock {
    /// Held for its lock.
    File(#[expect(dead_code, reason = "the lock ends when the file is closed")] File),
    Connection(DatabaseConnection),
}

/// What the announcement is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PresencePurpose {
    /// The process serves, alongside other processes that serve.
    Serve,
    /// The process undoes migrations that other processes rely on.
    TakeBack,
}

impl InstancePresence {
    /// Announces this process; `None` if other processes prevent it. On PostgreSQL, undoing migrations waits for
    /// instances whose session was just lost.
    ///
    /// Errors: the database is unreachable, or the file next to it cannot be created.
    pub async fn announce(db: &Db, intent: PresencePurpose) -> Result<Option<Self>, StoreError> {
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
            if is_held && intent == PresencePurpose::TakeBack {
                tokio::time::sleep(RETURNS_WITHIN).await;
            }
            is_held = is_held && lock(&connection, RETURNING_LOCK, intent).await?;
            return Ok(is_held.then_some(Self(PresenceLock::Connection(connection))));
        };
        let file = lock_file(&path).map_err(|error| StoreError::Unavailable(error.into()))?;
        let taken = match intent {
            PresencePurpose::Serve => file.try_lock_shared(),
            PresencePurpose::TakeBack => file.try_lock(),
        };
        match taken {
            Ok(()) => Ok(Some(Self(PresenceLock::File(file)))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(StoreError::Unavailable(error.into())),
        }
    }

    /// Announces a serving process again, after a restart of PostgreSQL dropped the announcement.
    pub async fn renew(&self) -> Result<bool, StoreError> {
        match &self.0 {
            PresenceLock::File(_) => Ok(true),
            PresenceLock::Connection(connection) => {
                let has_returned = lock(connection, RETURNING_LOCK, PresencePurpose::Serve).await?;
                Ok(lock(connection, SERVING_LOCK, PresencePurpose::Serve).await? && has_returned)
            }
        }
    }
}

/// Takes an advisory lock in this session, unless the session already holds the lock.
async fn lock(connection: &DatabaseConnection, key: i64, intent: PresencePurpose) -> Result<bool, StoreError> {
    let (mode, function) = match intent {
        PresencePurpose::Serve => ("ShareLock", "pg_try_advisory_lock_shared"),
        PresencePurpose::TakeBack => ("ExclusiveLock", "pg_try_advisory_lock"),
    };
    // PostgreSQL lists a lock of 64 bits as two halves.
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
