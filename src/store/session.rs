//! Connections that are taken from a pool. The driver gives a connection back whatever it still waits for: an answer that
//! was given up may leave a transaction open, in which the next caller would write something that is never committed. A
//! session is closed instead, unless every answer arrived.

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

/// Longest wait for the answers that bring a connection back to its pool.
const RETURN_TIMEOUT: Duration = Duration::from_millis(1_500);

/// How long connections are asked for their state after an answer was given up.
const DOUBTED_FOR: Duration = Duration::from_secs(60);

/// Shortest time between two moments from which on older connections are replaced.
const REPLACED_EVERY: Duration = Duration::from_secs(2);

/// What is held against the connections of a pool.
#[derive(Debug, Default)]
pub(super) struct Doubts {
    given_up: Mutex<Option<Instant>>,
    /// Wakes a try to write when an answer was given up.
    suspected: Notify,
    /// From when on connections are those of a server that is known to write.
    outdated_before: Mutex<Option<Instant>>,
    /// Whether the server seems to answer no commit. Each write would leave it one more session, until it takes no reader
    /// either.
    is_hanging: AtomicBool,
    /// Whether tries to write are made.
    is_watched: AtomicBool,
    /// Whether the role may not leave messages in the log.
    has_no_messages: AtomicBool,
}

fn lock(time: &Mutex<Option<Instant>>) -> std::sync::MutexGuard<'_, Option<Instant>> {
    time.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Doubts {
    /// Notes that an answer was given up.
    fn note_given_up(&self) {
        *lock(&self.given_up) = Some(Instant::now());
        self.suspected.notify_one();
    }

    /// Waits until an answer was given up since the last wait.
    pub(super) async fn wait_for_given_up(&self) {
        self.suspected.notified().await;
    }

    /// Notes that tries to write are made.
    pub(super) fn note_watched(&self) {
        self.is_watched.store(true, Relaxed);
    }

    /// Notes that a commit was not answered in time: until the next try is answered, no other one is begun.
    pub(super) fn suspect_commits(&self) {
        if self.is_watched.load(Relaxed) {
            self.note_hanging(true);
        }
    }

    /// Whether a try may leave a message in the log.
    pub(super) fn may_leave_messages(&self) -> bool {
        !self.has_no_messages.load(Relaxed)
    }

    /// Has tries leave no message in the log.
    pub(super) fn leave_no_messages(&self) {
        self.has_no_messages.store(true, Relaxed);
    }

    /// Notes whether the server answers no commit.
    pub(super) fn note_hanging(&self, is_hanging: bool) {
        self.is_hanging.store(is_hanging, Relaxed);
    }

    /// Whether the server answers no commit.
    pub(super) fn is_hanging(&self) -> bool {
        self.is_hanging.load(Relaxed)
    }

    /// Has connections that are older than now replaced: they may be those of a server that only reads, or that is gone.
    pub(super) fn outdate_older(&self) {
        let now = Instant::now();
        let mut outdated = lock(&self.outdated_before);
        if outdated.is_none_or(|before| now - before >= REPLACED_EVERY) {
            *outdated = Some(now);
        }
    }

    /// Whether a connection of this age was opened before the last time when older ones were to be replaced.
    pub(super) fn is_outdated(&self, age: Duration) -> bool {
        let outdated = *lock(&self.outdated_before);
        outdated.is_some_and(|before| before.elapsed() < age)
    }

    /// Whether a connection that comes back may be used again. After an answer was given up the server is asked, although
    /// that connection was closed: it costs a question, and what it guards is worth one.
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

/// Asks a session whether it is outside of every transaction.
async fn is_idle(session: &mut PgConnection) -> sqlx::Result<bool> {
    // The driver compares what the server says of the session with what a statement that begins a transaction leaves. This
    // one begins none, and fails in a transaction that failed.
    match session.begin_with("SELECT").await {
        Err(sqlx::Error::BeginFailed) => Ok(true),
        Err(error) => Err(error),
        Ok(_) => {
            tracing::warn!("a connection to the database came back within a transaction and is replaced");
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

/// A connection of a pool, and what it waits for.
pub(super) struct Session {
    /// `None` when it is on its way back.
    live: Option<Live>,
    doubts: Arc<Doubts>,
    /// Whether something was sent whose answer has not arrived. It remains when the caller stops waiting.
    is_waiting: bool,
    /// Whether a transaction was begun and has not ended.
    is_in_transaction: bool,
    /// Whether a statement of the transaction failed, so that PostgreSQL answers its commit with a rollback.
    has_failed: bool,
}

impl Session {
    /// Takes a connection from a pool.
    pub(super) async fn acquire(pool: &DatabaseConnection, doubts: &Arc<Doubts>) -> Result<Self, DbErr> {
        let acquired = match pool.get_database_backend() {
            DbBackend::Postgres => pool.get_postgres_connection_pool().acquire().await.map(Live::Postgres),
            _ => pool.get_sqlite_connection_pool().acquire().await.map(Live::Sqlite),
        };
        let mut live = acquired.map_err(|error| DbErr::Conn(RuntimeErr::SqlxError(error.into())))?;
        // Nothing but its return keeps it open.
        on_either!(&mut live, session => session.close_on_drop());
        Ok(Self {
            live: Some(live),
            doubts: doubts.clone(),
            is_waiting: false,
            is_in_transaction: false,
            has_failed: false,
        })
    }

    /// Begins to wait for an answer.
    fn ask(&mut self) -> Result<&mut Live, DbErr> {
        let given_up = || DbErr::Conn(RuntimeErr::Internal("an earlier answer was given up".to_owned()));
        if self.is_waiting {
            return Err(given_up());
        }
        self.is_waiting = true;
        self.live.as_mut().ok_or_else(given_up)
    }

    /// Notes that an answer arrived.
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

    /// Runs SQL that is used once.
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

    /// Notes that its commit was not answered in time.
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
                "a statement of the transaction failed, so that nothing of it was committed".to_owned(),
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

impl Drop for Session {
    fn drop(&mut self) {
        if self.is_waiting {
            self.doubts.note_given_up();
        } else if let Some(live) = self.live.take() {
            tokio::spawn(live.go_back(self.is_in_transaction));
        }
    }
}

impl Live {
    /// Goes back to the pool, after the rollback of its transaction. Without an answer it is closed: a dead connection would
    /// keep its place until the system gives it up after a quarter of an hour.
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
            Err(_) => format!("no answer within {RETURN_TIMEOUT:?}"),
        };
        // SQLite ends a transaction by itself when a write or a commit fails, on a full disk for example.
        tracing::warn!(
            cause,
            "a connection to the database did not come back well and is replaced"
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

/// Whether a database that reads refused to write.
pub(super) fn is_read_only(error: &sqlx::Error) -> bool {
    let Some(refused) = error.as_database_error() else {
        return false;
    };
    match refused.try_downcast_ref::<SqliteError>() {
        Some(refused) => sqlite_code(refused) == Some(8),
        None => refused.code().is_some_and(|code| code == "25006"),
    }
}

/// Whether PostgreSQL has no such function, or none for this role.
pub(super) fn is_missing_function(error: &sqlx::Error) -> bool {
    has_code(error, &["42501", "42883", "0A000"])
}

/// Whether a database has no such table.
pub(super) fn is_missing_table(error: &sqlx::Error) -> bool {
    let of_sqlite = |refused: &SqliteError| refused.to_string().contains("no such table");
    has_code(error, &["42P01"])
        || error
            .as_database_error()
            .and_then(|refused| refused.try_downcast_ref::<SqliteError>())
            .is_some_and(of_sqlite)
}

/// Whether PostgreSQL refused something with one of some codes.
fn has_code(error: &sqlx::Error, codes: &[&str]) -> bool {
    let refused = error
        .as_database_error()
        .and_then(|refused| refused.try_downcast_ref::<PgDatabaseError>());
    refused.is_some_and(|refused| codes.contains(&refused.code()))
}

/// Whether a session that answered with this error is as good as before.
fn leaves_session(error: &sqlx::Error) -> bool {
    let Some(refused) = error.as_database_error() else {
        return matches!(error, sqlx::Error::RowNotFound);
    };
    if is_read_only(error) {
        return false;
    }
    match refused.try_downcast_ref::<PgDatabaseError>() {
        Some(refused) => !matches!(refused.severity(), PgSeverity::Fatal | PgSeverity::Panic),
        // A file that cannot be read or opened is opened anew.
        None => refused
            .try_downcast_ref::<SqliteError>()
            .is_some_and(|refused| !matches!(sqlite_code(refused), Some(10 | 14))),
    }
}
