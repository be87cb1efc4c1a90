//! Connections taken from a pool. The driver returns a connection to the pool even if a response is outstanding. A call
//! that timed out may then leave a transaction open, and the next caller would write into that transaction without a
//! commit. This module closes such a session. It returns a session to the pool only when every response has arrived.

use sea_orm::{
    DatabaseConnection, DbBackend, DbErr, ExecResult, QueryResult, RuntimeErr, Statement,
    sea_query::Values,
    sqlx::{
        self, AssertSqlSafe, Connection, Executor, IntoArguments, Postgres, Sqlite,
        pool::PoolConnection,
        postgres::{PgConnection, PgDatabaseError, PgSeverity},
        query::Query,
        sqlite::SqliteError,
    },
};
use sea_query_sqlx::SqlxValues;
use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};
use tokio::sync::Notify;

/// Longest wait for the responses that must arrive before a connection returns to its pool.
const RETURN_TIMEOUT: Duration = Duration::from_millis(1_500);

/// How long after a timed-out call the service checks returned connections.
const DOUBTED_FOR: Duration = Duration::from_secs(60);

/// Shortest time between two replacements of the connections of a pool.
const REPLACED_EVERY: Duration = Duration::from_secs(2);

/// Signs that the connections of a pool, or their server, may not work.
#[derive(Debug, Default)]
pub(super) struct ConnectionDoubts {
    given_up: Mutex<Option<Instant>>,
    /// Wakes a test write after a call timed out.
    suspected: Notify,
    /// Connections that were opened before this time are replaced. Later connections are to a server that is known to
    /// accept writes.
    outdated_before: Mutex<Option<Instant>>,
    /// Whether the server seems to confirm no commit. In this state each further write would leave one more session on
    /// the server, until the server accepts no readers either.
    is_hanging: AtomicBool,
    /// Whether test writes are running.
    is_watched: AtomicBool,
    /// Whether the database role may not write messages to the write-ahead log.
    has_no_messages: AtomicBool,
}

fn lock(time: &Mutex<Option<Instant>>) -> std::sync::MutexGuard<'_, Option<Instant>> {
    time.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ConnectionDoubts {
    /// Records that a call timed out.
    fn note_given_up(&self) {
        *lock(&self.given_up) = Some(Instant::now());
        self.suspected.notify_one();
    }

    /// Waits until a call times out. Returns immediately if a call has timed out since the last wait.
    pub(super) async fn wait_for_given_up(&self) {
        self.suspected.notified().await;
    }

    /// Records that test writes are running.
    pub(super) fn note_watched(&self) {
        self.is_watched.store(true, Relaxed);
    }

    /// Records that a commit was not confirmed in time. If test writes are running, no other write begins until the
    /// next test write succeeds.
    pub(super) fn suspect_commits(&self) {
        if self.is_watched.load(Relaxed) {
            self.note_hanging(true);
        }
    }

    /// Whether a test write may write a message to the write-ahead log.
    pub(super) fn may_leave_messages(&self) -> bool {
        !self.has_no_messages.load(Relaxed)
    }

    /// Makes test writes write no message to the write-ahead log.
    pub(super) fn leave_no_messages(&self) {
        self.has_no_messages.store(true, Relaxed);
    }

    /// Records whether the server confirms no commit.
    pub(super) fn note_hanging(&self, is_hanging: bool) {
        self.is_hanging.store(is_hanging, Relaxed);
    }

    /// Whether the server confirms no commit.
    pub(super) fn is_hanging(&self) -> bool {
        self.is_hanging.load(Relaxed)
    }

    /// Marks all connections that are open now as outdated, so that they are replaced: they may be to a server that is
    /// read-only or gone.
    pub(super) fn outdate_older(&self) {
        let now = Instant::now();
        let mut outdated = lock(&self.outdated_before);
        if outdated.is_none_or(|before| now - before >= REPLACED_EVERY) {
            *outdated = Some(now);
        }
    }

    /// Whether a connection of this age was opened before the last replacement.
    pub(super) fn is_outdated(&self, age: Duration) -> bool {
        let outdated = *lock(&self.outdated_before);
        outdated.is_some_and(|before| before.elapsed() < age)
    }

    /// Whether a returned connection may be used again. For a while after a call timed out, each returned connection is
    /// checked with a query, although the connection of that call was closed. One query costs little compared with a
    /// write into an open transaction.
    pub(super) async fn is_sound(&self, session: &mut PgConnection, age: Duration) -> sqlx::Result<bool> {
        if self.is_outdated(age) {
            return Ok(false);
        }
        let given_up = *lock(&self.given_up);
        if given_up.is_none_or(|given_up| given_up.elapsed() >= DOUBTED_FOR) {
            return Ok(true);
        }
        is_idle(session).await
    }
}

/// Checks whether a session is outside of every transaction.
async fn is_idle(session: &mut PgConnection) -> sqlx::Result<bool> {
    // The driver compares the session state that the server reports with the expected state after a statement that
    // begins a transaction. This statement begins no transaction, and fails in a failed transaction.
    match session.begin_with("SELECT").await {
        Err(sqlx::Error::BeginFailed) => Ok(true),
        Err(error) => Err(error),
        Ok(_) => {
            tracing::warn!("a database connection was returned to the pool inside a transaction and is replaced");
            Ok(false)
        }
    }
}

enum Live {
    Postgres(PoolConnection<Postgres>),
    Sqlite(PoolConnection<Sqlite>),
}

/// Evaluates an expression for a connection of either database.
macro_rules! on_either {
    ($live:expr, $session:ident => $value:expr) => {
        match $live {
            Live::Postgres($session) => $value,
            Live::Sqlite($session) => $value,
        }
    };
}

/// A connection of a pool, and the state of its transaction.
pub(super) struct PooledConnection {
    /// `None` while the connection is being returned.
    live: Option<Live>,
    doubts: Arc<ConnectionDoubts>,
    /// Whether a response is outstanding. The flag stays set when the caller stops waiting.
    is_waiting: bool,
    /// Whether a transaction was begun and has not ended.
    is_in_transaction: bool,
    /// Whether a statement of the transaction failed, so that PostgreSQL responds to its commit with a rollback.
    has_failed: bool,
}

impl PooledConnection {
    /// Takes a connection from a pool.
    pub(super) async fn acquire(pool: &DatabaseConnection, doubts: &Arc<ConnectionDoubts>) -> Result<Self, DbErr> {
        let acquired = match pool.get_database_backend() {
            DbBackend::Postgres => pool.get_postgres_connection_pool().acquire().await.map(Live::Postgres),
            _ => pool.get_sqlite_connection_pool().acquire().await.map(Live::Sqlite),
        };
        let mut live = acquired.map_err(|error| DbErr::Conn(RuntimeErr::SqlxError(error.into())))?;
        // Only an explicit return keeps the connection open.
        on_either!(&mut live, session => session.close_on_drop());
        Ok(Self {
            live: Some(live),
            doubts: doubts.clone(),
            is_waiting: false,
            is_in_transaction: false,
            has_failed: false,
        })
    }

    /// Begins to wait for a response.
    fn ask(&mut self) -> Result<&mut Live, DbErr> {
        let given_up = || {
            DbErr::Conn(RuntimeErr::Internal(
                "an earlier call on this connection timed out".to_owned(),
            ))
        };
        if self.is_waiting {
            return Err(given_up());
        }
        self.is_waiting = true;
        self.live.as_mut().ok_or_else(given_up)
    }

    /// Records that a response arrived.
    fn hear<T>(&mut self, answer: sqlx::Result<T>) -> sqlx::Result<T> {
        self.is_waiting = false;
        if let Err(error) = &answer {
            self.has_failed |= self.is_in_transaction;
            if is_read_only(error) {
                self.doubts.outdate_older();
            }
            self.is_waiting = !leaves_session(error);
        }
        answer
    }

    /// Runs a statement.
    pub(super) async fn execute(&mut self, statement: Statement) -> Result<ExecResult, DbErr> {
        let answer = match self.ask()? {
            Live::Postgres(session) => query(statement).execute(&mut **session).await.map(ExecResult::from),
            Live::Sqlite(session) => query(statement).execute(&mut **session).await.map(ExecResult::from),
        };
        self.hear(answer).map_err(execution_failed)
    }

    /// Runs SQL without preparing it, because it is used once.
    pub(super) async fn execute_unprepared(&mut self, sql: &str) -> Result<ExecResult, DbErr> {
        let sql = AssertSqlSafe(sql.to_owned());
        let answer = match self.ask()? {
            Live::Postgres(session) => session.execute(sql).await.map(ExecResult::from),
            Live::Sqlite(session) => session.execute(sql).await.map(ExecResult::from),
        };
        self.hear(answer).map_err(execution_failed)
    }

    /// Reads the first row.
    pub(super) async fn query_one(&mut self, statement: Statement) -> Result<Option<QueryResult>, DbErr> {
        let answer = match self.ask()? {
            Live::Postgres(session) => {
                let row = query(statement).fetch_optional(&mut **session).await;
                row.map(|row| row.map(QueryResult::from))
            }
            Live::Sqlite(session) => {
                let row = query(statement).fetch_optional(&mut **session).await;
                row.map(|row| row.map(QueryResult::from))
            }
        };
        self.hear(answer).map_err(query_failed)
    }

    /// Reads all rows.
    pub(super) async fn query_all(&mut self, statement: Statement) -> Result<Vec<QueryResult>, DbErr> {
        let answer = match self.ask()? {
            Live::Postgres(session) => {
                let rows = query(statement).fetch_all(&mut **session).await;
                rows.map(|rows| rows.into_iter().map(QueryResult::from).collect())
            }
            Live::Sqlite(session) => {
                let rows = query(statement).fetch_all(&mut **session).await;
                rows.map(|rows| rows.into_iter().map(QueryResult::from).collect())
            }
        };
        self.hear(answer).map_err(query_failed)
    }

    /// Records that the commit of this connection was not confirmed in time.
    pub(super) fn suspect_commits(&self) {
        self.doubts.suspect_commits();
    }

    /// Begins a transaction with this statement.
    pub(super) async fn begin(&mut self, statement: &'static str) -> Result<(), DbErr> {
        self.run(statement).await?;
        self.is_in_transaction = true;
        Ok(())
    }

    /// Commits the transaction.
    pub(super) async fn commit(&mut self) -> Result<(), DbErr> {
        if self.has_failed && matches!(self.live, Some(Live::Postgres(_))) {
            return Err(DbErr::Custom(
                "a statement of the transaction failed, so nothing was committed".to_owned(),
            ));
        }
        self.run("COMMIT").await?;
        self.is_in_transaction = false;
        Ok(())
    }

    async fn run(&mut self, statement: &'static str) -> Result<(), DbErr> {
        let answer = on_either!(self.ask()?, session => session.execute(statement).await.map(|_| ()));
        self.hear(answer).map_err(query_failed)
    }
}

impl Drop for PooledConnection {
    fn drop(&mut self) {
        if self.is_waiting {
            self.doubts.note_given_up();
        } else if let Some(live) = self.live.take() {
            tokio::spawn(live.go_back(self.is_in_transaction));
        }
    }
}

impl Live {
    /// Returns the connection to the pool, after the rollback of its transaction. Without a response the connection is
    /// closed: a dead connection would occupy its slot until the operating system drops it after a quarter of an hour.
    async fn go_back(mut self, is_in_transaction: bool) {
        let back = async {
            if is_in_transaction {
                on_either!(&mut self, session => session.execute("ROLLBACK").await.map(|_| ()))?;
            }
            on_either!(&mut self, session => session.return_to_pool().await);
            Ok::<_, sqlx::Error>(())
        };
        let cause = match tokio::time::timeout(RETURN_TIMEOUT, back).await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no response within {RETURN_TIMEOUT:?}"),
        };
        // SQLite itself ends a transaction when a write or a commit fails, for example on a full disk.
        tracing::warn!(
            cause,
            "a database connection was returned to the pool in a bad state and is replaced"
        );
    }
}

fn query<DB>(statement: Statement) -> Query<'static, DB, SqlxValues>
where
    DB: sqlx::Database,
    SqlxValues: IntoArguments<DB>,
{
    let values = statement.values.unwrap_or_else(|| Values(Vec::new()));
    sqlx::query_with(AssertSqlSafe(statement.sql), SqlxValues(values))
}

fn execution_failed(error: sqlx::Error) -> DbErr {
    DbErr::Exec(RuntimeErr::SqlxError(error.into()))
}

fn query_failed(error: sqlx::Error) -> DbErr {
    DbErr::Query(RuntimeErr::SqlxError(error.into()))
}

/// The code of an error of SQLite without its details.
pub(super) fn sqlite_code(error: &SqliteError) -> Option<u32> {
    use sqlx::error::DatabaseError;
    error.code()?.parse::<u32>().ok().map(|code| code & 0xff)
}

/// Whether a write was rejected because the database is read-only.
pub(super) fn is_read_only(error: &sqlx::Error) -> bool {
    let Some(refused) = error.as_database_error() else {
        return false;
    };
    match refused.try_downcast_ref::<SqliteError>() {
        Some(refused) => sqlite_code(refused) == Some(8),
        None => refused.code().is_some_and(|code| code == "25006"),
    }
}

/// Whether PostgreSQL does not have the called function, or this role may not call it.
pub(super) fn is_missing_function(error: &sqlx::Error) -> bool {
    has_code(error, &["42501", "42883", "0A000"])
}

/// Whether the database does not have the table.
pub(super) fn is_missing_table(error: &sqlx::Error) -> bool {
    let of_sqlite = |refused: &SqliteError| refused.to_string().contains("no such table");
    has_code(error, &["42P01"])
        || error
            .as_database_error()
            .and_then(|refused| refused.try_downcast_ref::<SqliteError>())
            .is_some_and(of_sqlite)
}

/// Whether PostgreSQL failed with one of the given codes.
fn has_code(error: &sqlx::Error, codes: &[&str]) -> bool {
    let refused = error
        .as_database_error()
        .and_then(|refused| refused.try_downcast_ref::<PgDatabaseError>());
    refused.is_some_and(|refused| codes.contains(&refused.code()))
}

/// Whether a session is unaffected by this error, so that it can be used again.
fn leaves_session(error: &sqlx::Error) -> bool {
    let Some(refused) = error.as_database_error() else {
        return matches!(error, sqlx::Error::RowNotFound);
    };
    if is_read_only(error) {
        return false;
    }
    match refused.try_downcast_ref::<PgDatabaseError>() {
        Some(refused) => !matches!(refused.severity(), PgSeverity::Fatal | PgSeverity::Panic),
        // If the file cannot be read or opened, a new connection opens it again.
        None => refused
            .try_downcast_ref::<SqliteError>()
            .is_some_and(|refused| !matches!(sqlite_code(refused), Some(10 | 14))),
    }
}
