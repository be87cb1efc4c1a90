//! Connections, transactions and migrations of both databases.

use super::{
    StoreError, driver_error, reach, schema,
    sealed::Sealing,
    session::{ConnectionDoubts, PooledConnection, is_missing_function, is_missing_table, is_read_only},
    sqlite_files::{self, Durability},
    time::{self, ServerClock},
};
use crate::ports::sealer::Sealer;
use async_trait::async_trait;
use chrono::{DateTime, Utc};
use migration::{MigrationStatus, Migrator, MigratorTrait};
use sea_orm::{
    ConnectOptions, ConnectionTrait, Database, DatabaseConnection, DbBackend, DbErr, ExecResult, IntoDatabaseExecutor,
    QueryResult, RuntimeErr, SqliteTransactionMode, Statement, TransactionOptions, TransactionTrait,
    sqlx::{
        self,
        sqlite::{SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqliteSynchronous},
    },
};
use std::{
    fmt,
    path::PathBuf,
    str::FromStr,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

/// Longest wait for a PostgreSQL connection or the start of a transaction. It is short enough that a caller learns
/// within two seconds that the database is unavailable. Source: rules D.4.
const ACQUIRE_TIMEOUT: Duration = Duration::from_millis(1_500);

/// Longest wait for a lock of PostgreSQL.
const LOCK_TIMEOUT: &str = "2s";

/// Longest idle time within a transaction of PostgreSQL. After it, an unreachable instance loses its locks, so that
/// another instance can take over.
const IDLE_TIMEOUT: &str = "4s";

/// How often PostgreSQL checks during a statement whether the connection still exists. This service closes a connection
/// when its caller stops waiting, and the statement must not occupy the server after that.
const CONNECTION_CHECK: &str = "500ms";

/// Longest run time of one statement on PostgreSQL, and of one statement that reads from SQLite.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(5);

/// Number of steps of the SQLite virtual machine between two checks of a statement's run time. This number of steps
/// takes some milliseconds.
const STEPS_BETWEEN_LOOKS: i32 = 100_000;

/// Longest wait for the single writer of SQLite.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Longest wait for another process that migrates the same SQLite file.
const MIGRATION_TIMEOUT: Duration = Duration::from_mins(10);

/// Longest wait of background work for one statement or commit of PostgreSQL: one second more than the statement
/// timeout of the server. After it, the outcome of a commit is unknown.
const PATIENCE: Duration = Duration::from_secs(6);

/// Longest wait for one statement or commit of PostgreSQL while a caller waits for a response, unless the settings say
/// otherwise. Source: rules D.4.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(1_200);

/// Longest wait for one response that the settings allow.
const ANSWER_TIMEOUT_MAX: Duration = Duration::from_mins(1);

/// Maximum number of connections in the PostgreSQL pool, and in the reader pool of SQLite.
const CONNECTIONS_MAX: u32 = 16;
const SQLITE_READERS_MAX: u32 = 8;

/// Minimum run time of a statement that is logged as slow.
const SLOW_STATEMENT: Duration = Duration::from_millis(250);

/// Application name of a PostgreSQL session during a test write.
const TRY: &str = "prs try";

/// Key of the advisory lock that lets one process migrate at a time.
const MIGRATION_LOCK: i64 = 0x7072_735f_6d69_6772;

/// The database. Cheap to clone.
#[derive(Clone)]
pub struct Db {
    url: String,
    durability: Durability,
    reader: Connection,
    writer: Connection,
    clock: Arc<ServerClock>,
    /// Locked while the write-ahead log of SQLite is emptied.
    emptying: Arc<tokio::sync::Mutex<()>>,
}

impl fmt::Debug for Db {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let backend = self.writer.get_database_backend();
        out.debug_struct("Db")
            .field("backend", &backend)
            .finish_non_exhaustive()
    }
}

/// A migration and whether it has been applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MigrationState {
    /// Name.
    pub name: String,
    /// Whether it has been applied.
    pub is_applied: bool,
}

impl Db {
    /// Connects to `sqlite://path` or `postgres://…`. A missing SQLite file and its folder are created.
    ///
    /// SQLite gets one writing connection and a pool of reading connections, because several writers would only wait
    /// for each other. PostgreSQL gets one pool for both.
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        Self::connect_with(url, Durability::Full).await
    }

    /// Why this process cannot reach the PostgreSQL server; `None` when it can. The text contains the address and never
    /// a password. Always `None` on SQLite, whose errors already give the reason.
    pub async fn obstacle(&self) -> Option<String> {
        if self.is_postgres() {
            reach::obstacle(self.url()).await
        } else {
            None
        }
    }

    /// Like [`Self::connect`], with another durability of SQLite. The durability of PostgreSQL is set on its server.
    pub async fn connect_with(url: &str, durability: Durability) -> Result<Self, StoreError> {
        if url.starts_with("sqlite:") {
            Self::connect_sqlite(url, durability).await
        } else if url.starts_with("postgres:") || url.starts_with("postgresql:") {
            let doubts = Arc::new(ConnectionDoubts::default());
            let live = match in_time(Some(PATIENCE), Database::connect(postgres_options(url, &doubts))).await {
                Ok(live) => live,
                Err(error) => {
                    let cause = reach::obstacle(url).await.unwrap_or_else(|| error.to_string());
                    return Err(StoreError::Unavailable(anyhow::anyhow!(cause)));
                }
            };
            let reader = Connection {
                live,
                doubts,
                deadline: Some(ANSWER_TIMEOUT),
                is_refused_while_hanging: false,
                sealer: None,
            };
            let writer = Connection {
                is_refused_while_hanging: true,
                ..reader.clone()
            };
            let db = Self {
                url: url.to_owned(),
                durability,
                reader,
                writer,
                clock: Arc::default(),
                emptying: Arc::default(),
            };
            db.ask_time().await?;
            Ok(db)
        } else {
            Err(StoreError::Broken(anyhow::anyhow!(
                "the database URL must start with sqlite: or postgres:"
            )))
        }
    }

    async fn connect_sqlite(url: &str, durability: Durability) -> Result<Self, StoreError> {
        sqlite_files::prepare(url)?;
        // The writer connects first: it creates the file and switches the file to write-ahead logging.
        let writer = Database::connect(sqlite_options(url, Access::Write, durability)).await?;
        let reader = Database::connect(sqlite_options(url, Access::Read, durability)).await?;
        // SQLite is a local file: it has a lock timeout, and there is no network that could be unresponsive.
        let unlimited = |live| Connection {
            live,
            doubts: Arc::default(),
            deadline: None,
            is_refused_while_hanging: false,
            sealer: None,
        };
        Ok(Self {
            url: url.to_owned(),
            durability,
            reader: unlimited(reader),
            writer: unlimited(writer),
            clock: Arc::default(),
            emptying: Arc::default(),
        })
    }

    /// The same database, with this maximum wait for each PostgreSQL response.
    #[must_use]
    pub fn answering_within(&self, limit: Duration) -> Self {
        let limited = |connection: &Connection| Connection {
            live: connection.live.clone(),
            doubts: connection.doubts.clone(),
            deadline: self.is_postgres().then_some(limit),
            is_refused_while_hanging: connection.is_refused_while_hanging,
            sealer: connection.sealer.clone(),
        };
        Self {
            url: self.url.clone(),
            durability: self.durability,
            reader: limited(&self.reader),
            writer: limited(&self.writer),
            clock: self.clock.clone(),
            emptying: self.emptying.clone(),
        }
    }

    /// The same database for background work: no caller waits, so statements may take longer.
    #[must_use]
    pub fn patient(&self) -> Self {
        self.answering_within(PATIENCE)
    }

    /// The same database, with the keys that encrypt its columns with personal data.
    #[must_use]
    pub fn sealed_with(mut self, sealer: &Arc<dyn Sealer>) -> Self {
        self.reader.sealer = Some(sealer.clone());
        self.writer.sealer = Some(sealer.clone());
        self
    }

    /// The keys that encrypt the columns with personal data.
    pub fn sealer(&self) -> Option<Arc<dyn Sealer>> {
        self.reader.sealer.clone()
    }

    /// Connection for reads outside a transaction.
    pub fn reader(&self) -> &Connection {
        &self.reader
    }

    /// Connection for a write of one statement. The statement is a transaction of its own and uses its own session. The
    /// session returns to its pool only after the end of the transaction is confirmed ([`Session`]).
    pub fn writer(&self) -> &Connection {
        &self.writer
    }

    /// The file of SQLite; `None` for PostgreSQL.
    pub fn file(&self) -> Option<PathBuf> {
        let options = SqliteConnectOptions::from_str(&self.url).ok()?;
        (!self.is_postgres()).then(|| options.get_filename().to_owned())
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// Whether the database is PostgreSQL.
    pub fn is_postgres(&self) -> bool {
        self.writer.get_database_backend() == DbBackend::Postgres
    }

    /// Begins a writing transaction. The name shows up in metrics and logs.
    ///
    /// On SQLite the transaction takes the write lock immediately. A transaction that reads first and writes later
    /// would fail as busy whenever another transaction has written in between.
    pub async fn begin(&self, name: &'static str) -> Result<Tx, StoreError> {
        let statement = if self.is_postgres() { "BEGIN" } else { "BEGIN IMMEDIATE" };
        let started = Instant::now();
        let begun = async {
            let mut session = self.writer.session().await?;
            session.begin(statement).await?;
            Ok(session)
        };
        let session = in_time(self.acquiring(), begun).await?;
        tracing::trace!(transaction = name, "begun");
        crate::fail_at(name, "begun");
        Ok(Tx {
            session: session.into(),
            backend: self.writer.get_database_backend(),
            name,
            started,
            statements: AtomicU32::new(0),
            deadline: self.writer.deadline,
            sealer: self.writer.sealer.clone(),
        })
    }

    /// The current time of the PostgreSQL server's clock, as last read by [`Self::ask_time`]; `None` before that, and
    /// for SQLite, which uses the clock of the machine.
    pub fn time(&self) -> Option<DateTime<Utc>> {
        self.clock.at(Instant::now())
    }

    /// Reads the time of a PostgreSQL server.
    pub async fn ask_time(&self) -> Result<(), StoreError> {
        if self.is_postgres() {
            let asked = Instant::now();
            let shown = time::now(self.reader()).await?;
            self.clock.correct(asked, shown, Instant::now());
        }
        Ok(())
    }

    /// Takes a connection, and returns a future that makes a test write on it. The test write changes no row and has no
    /// deadline; its result is whether the database accepts writes. On PostgreSQL the test writes a message to the
    /// write-ahead log, which nothing reads. Its commit therefore waits for everything that other commits wait for,
    /// such as a standby, but it waits for no lock.
    pub async fn try_write(&self) -> Result<impl Future<Output = Result<bool, StoreError>> + use<>, StoreError> {
        let doubts = self.writer.doubts.clone();
        let mut session = PooledConnection::acquire(&self.writer.live, &doubts).await?;
        let is_postgres = self.is_postgres();
        Ok(async move {
            if is_postgres {
                return try_postgres(&mut session, &doubts).await;
            }
            match session
                .execute_unprepared("UPDATE key_material SET name = name WHERE 1 = 0")
                .await
            {
                Err(error) if driver_error(&error).is_some_and(is_read_only) => Ok(false),
                outcome => Ok(outcome.map(|_| true)?),
            }
        })
    }

    /// Declares that test writes are running. From then on, a commit without a response in time makes this service
    /// reject writes until a test write succeeds.
    pub fn watch_writes(&self) {
        self.writer.doubts.note_watched();
    }

    /// Replaces the connections that were opened before this call, one by one as they are used.
    pub fn replace_connections(&self) {
        self.writer.doubts.outdate_older();
    }

    /// Ends, on the PostgreSQL server, the test writes of any instance that have run for longer than an instance waits
    /// for them.
    pub async fn end_old_tries(&self) -> Result<(), StoreError> {
        let sql = format!(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '{TRY}' \
             AND usename = current_user AND datname = current_database() AND state_change < now() - interval '30 s'"
        );
        if self.is_postgres() {
            self.reader.execute_unprepared(&sql).await?;
        }
        Ok(())
    }

    /// Sets whether writes are rejected immediately, because the server confirms no commit. Otherwise the sessions of
    /// waiting writes would accumulate on the server.
    pub fn refuse_writes(&self, is_hanging: bool) {
        self.writer.doubts.note_hanging(is_hanging);
    }

    /// Waits until a database call times out. Returns immediately if a call has timed out since the last wait.
    pub async fn wait_for_given_up(&self) {
        self.writer.doubts.wait_for_given_up().await;
    }

    /// The deadline for taking a connection and beginning a transaction: it is short even for background work, which may
    /// wait longer for statements. An operator who lets callers wait longer than background work gets this wait here
    /// too.
    fn acquiring(&self) -> Option<Duration> {
        let acquiring = |limit: Duration| {
            if limit > PATIENCE {
                limit
            } else {
                limit.min(ACQUIRE_TIMEOUT)
            }
        };
        self.reader.deadline.map(acquiring)
    }

    /// Applies all pending migrations. Waits for another process that migrates.
    pub async fn migrate_up(&self) -> Result<(), StoreError> {
        self.migrate(Direction::Up).await
    }

    /// Undoes the newest `steps` migrations. Waits for another process that migrates.
    pub async fn migrate_down(&self, steps: u32) -> Result<(), StoreError> {
        self.migrate(Direction::Down(steps)).await
    }

    /// Migrates on its own connection, which has none of the usual deadlines: rewriting a large table takes long.
    async fn migrate(&self, direction: Direction) -> Result<(), StoreError> {
        let mut options = if self.is_postgres() {
            ConnectOptions::new(&self.url)
        } else {
            sqlite_options(&self.url, Access::Migrate, self.durability)
        };
        options
            .max_connections(1)
            .acquire_timeout(BUSY_TIMEOUT)
            .set_application_name("prs migrate")
            .record_stmt_in_spans(false);
        let connection = Database::connect(options).await?;
        let result = self.migrate_alone(&connection, direction).await;
        connection.close().await?;
        result
    }

    /// Migrates while no other process does. The missing migrations are looked up under the lock, which ends at the
    /// latest with the connection.
    async fn migrate_alone(&self, connection: &DatabaseConnection, direction: Direction) -> Result<(), StoreError> {
        if self.is_postgres() {
            let lock = format!("SELECT pg_advisory_lock({MIGRATION_LOCK})");
            connection.execute_unprepared(&lock).await?;
            if let Direction::Down(_) = direction {
                // A migration that fails leaves the database unchanged.
                let tx = connection.begin().await?;
                direction.run(&tx).await?;
                return Ok(tx.commit().await?);
            }
            return direction.run(connection).await;
        }
        // The lock of SQLite is a transaction, so that either all migrations are applied or none.
        let options = TransactionOptions {
            sqlite_transaction_mode: Some(SqliteTransactionMode::Immediate),
            ..Default::default()
        };
        let tx = connection.begin_with_options(options).await?;
        direction.run(&tx).await?;
        Ok(tx.commit().await?)
    }

    /// Empties the write-ahead log of SQLite, which still contains previous versions of rows; returns whether no reader
    /// blocked it.
    pub async fn checkpoint(&self) -> Result<bool, StoreError> {
        if self.is_postgres() {
            return Ok(true);
        }
        // Emptying the log blocks writes, so calls do not wait for each other. If another call is already emptying the
        // log, the result is `false`, because that call may not include what was written after it began.
        let Ok(_emptying) = self.emptying.try_lock() else {
            return Ok(false);
        };
        let emptied = self.empty_log().await;
        Ok(emptied.map_err(|error| DbErr::Query(RuntimeErr::SqlxError(error.into())))?)
    }

    /// Empties the write-ahead log. Does not wait for readers, because that wait would block every write.
    async fn empty_log(&self) -> sqlx::Result<bool> {
        let mut session = self.writer.live.get_sqlite_connection_pool().acquire().await?;
        // This session has a busy timeout of 0, which must not apply to later writes, so the session is closed and not
        // reused.
        session.close_on_drop();
        sqlx::query("PRAGMA busy_timeout = 0").execute(&mut *session).await?;
        let checkpoint = sqlx::query_scalar::<_, i32>("PRAGMA wal_checkpoint(TRUNCATE)");
        let busy = checkpoint.fetch_one(&mut *session).await?;
        // Closing the session refreshes statistics, which a concurrent writer may prevent. The log is empty by then.
        if let Err(error) = session.close().await {
            tracing::debug!(%error, "the statistics of the database were not refreshed");
        }
        Ok(busy == 0)
    }

    /// Every migration, oldest first. Changes nothing, not even in an empty database.
    pub async fn migrate_status(&self) -> Result<Vec<MigrationState>, StoreError> {
        let migrations = Migrator::get_migration_with_status_read_only(&self.unhurried())
            .await
            .map_err(named)?;
        Ok(migrations
            .iter()
            .map(|migration| MigrationState {
                name: migration.name().to_owned(),
                is_applied: migration.status() == MigrationStatus::Applied,
            })
            .collect())
    }

    /// Whether every migration that this program knows is applied. The database may have further migrations.
    pub async fn is_schema_complete(&self) -> Result<bool, StoreError> {
        let sql = "SELECT version FROM seaql_migrations";
        let statement = Statement::from_string(self.reader.get_database_backend(), sql);
        let rows = match self.reader.query_all_raw(statement).await {
            Err(error) if driver_error(&error).is_some_and(is_missing_table) => return Ok(false),
            rows => rows?,
        };
        let applied: Vec<String> = rows
            .iter()
            .map(|row| row.try_get("", "version"))
            .collect::<Result<_, _>>()?;
        let known = Migrator::migrations();
        Ok(known
            .iter()
            .all(|migration| applied.iter().any(|version| version == migration.name())))
    }

    /// The schema as text, in an order that does not depend on the order of its migrations.
    pub async fn dump_schema(&self) -> Result<String, StoreError> {
        schema::dump(&self.unhurried()).await
    }

    /// The reader without a deadline, for commands that query the whole schema and may take long.
    fn unhurried(&self) -> Connection {
        Connection {
            deadline: None,
            ..self.reader.clone()
        }
    }

    /// Closes the connections. SQLite refreshes its statistics before that.
    pub async fn close(self) -> Result<(), StoreError> {
        self.reader.live.close().await?;
        // On PostgreSQL, reader and writer share one pool; closing the pool twice does no harm.
        Ok(self.writer.live.close().await?)
    }
}

/// Which way to migrate.
#[derive(Debug, Clone, Copy)]
enum Direction {
    /// Apply all that are missing.
    Up,
    /// Undo this many.
    Down(u32),
}

impl Direction {
    async fn run<'c>(self, connection: impl IntoDatabaseExecutor<'c>) -> Result<(), StoreError> {
        match self {
            Self::Up => Migrator::up(connection, None).await,
            Self::Down(steps) => Migrator::down(connection, Some(steps)).await,
        }
        .map_err(named)
    }
}

/// The library's error for a migration that is applied in the database and unknown to this program.
const UNKNOWN_MIGRATION: &str = "this migration has been applied but its file is missing";

/// Replaces the library's list of all unknown migrations by one sentence: another version created the database.
fn named(error: DbErr) -> StoreError {
    match error {
        DbErr::Custom(text) if text.contains(UNKNOWN_MIGRATION) => StoreError::Broken(anyhow::anyhow!(
            "another version of this program created the database: it has migrations that this one does not know; run \
             that version, or start with an empty database"
        )),
        other => other.into(),
    }
}

/// A connection to the database with a deadline.
#[derive(Clone)]
pub struct Connection {
    live: DatabaseConnection,
    doubts: Arc<ConnectionDoubts>,
    /// Longest wait for one response; `None` on SQLite. The server has its own deadlines, but the errors of the server
    /// do not arrive if the network drops all packets.
    deadline: Option<Duration>,
    /// Whether this connection writes, so that its calls are rejected while the server confirms no commit.
    is_refused_while_hanging: bool,
    /// Encryption with the master keys; `None` before the keys are known.
    sealer: Option<Arc<dyn Sealer>>,
}

impl Connection {
    /// Waits for the result of one statement, which is its own transaction. After a write without a result in time,
    /// further writes are rejected until a test write succeeds.
    async fn answered<T>(&self, answer: impl Future<Output = Result<T, DbErr>> + Send) -> Result<T, DbErr> {
        let answer = in_time(self.deadline, answer).await;
        if self.is_refused_while_hanging && answer.as_ref().is_err_and(is_given_up) {
            self.doubts.suspect_commits();
        }
        answer
    }

    async fn session(&self) -> Result<PooledConnection, DbErr> {
        if self.is_refused_while_hanging && self.doubts.is_hanging() {
            let cause = "the database server confirms no commit, so writes are rejected".to_owned();
            return Err(DbErr::Conn(RuntimeErr::Internal(cause)));
        }
        PooledConnection::acquire(&self.live, &self.doubts).await
    }
}

impl Sealing for Connection {
    fn sealer(&self) -> Option<&dyn Sealer> {
        self.sealer.as_deref()
    }
}

#[async_trait]
impl ConnectionTrait for Connection {
    fn get_database_backend(&self) -> DbBackend {
        self.live.get_database_backend()
    }

    async fn execute_raw(&self, statement: Statement) -> Result<ExecResult, DbErr> {
        let answer = async { self.session().await?.execute(statement).await };
        self.answered(answer).await
    }

    async fn execute_unprepared(&self, sql: &str) -> Result<ExecResult, DbErr> {
        let answer = async { self.session().await?.execute_unprepared(sql).await };
        self.answered(answer).await
    }

    async fn query_one_raw(&self, statement: Statement) -> Result<Option<QueryResult>, DbErr> {
        let answer = async { self.session().await?.query_one(statement).await };
        self.answered(answer).await
    }

    async fn query_all_raw(&self, statement: Statement) -> Result<Vec<QueryResult>, DbErr> {
        let answer = async { self.session().await?.query_all(statement).await };
        self.answered(answer).await
    }
}

/// Runs a test write on a session of PostgreSQL.
async fn try_postgres(session: &mut PooledConnection, doubts: &ConnectionDoubts) -> Result<bool, StoreError> {
    let message = if doubts.may_leave_messages() {
        "pg_logical_emit_message(true, 'prs', 'try')::text"
    } else {
        "'no message'"
    };
    // The application name marks the session until the end of the transaction, also while the commit waits for a
    // standby. So the server can find a test write that hangs.
    let sql = format!(
        "SELECT set_config('application_name', '{TRY}', true) AS name, \
         CASE current_setting('transaction_read_only') WHEN 'on' THEN NULL ELSE {message} END AS message"
    );
    let row = match session
        .query_one(Statement::from_string(DbBackend::Postgres, sql))
        .await
    {
        Err(error) if driver_error(&error).is_some_and(is_missing_function) => {
            tracing::warn!(
                "the database role may not call pg_logical_emit_message, so commits without a response are detected \
                 late"
            );
            doubts.leave_no_messages();
            return Err(error.into());
        }
        row => row?,
    };
    let message: Option<String> = row.map(|row| row.try_get("", "message")).transpose()?.flatten();
    if message.is_none() {
        // Connections to a read-only server are of no use for writes, so they are replaced.
        doubts.outdate_older();
    }
    Ok(message.is_some())
}

/// Waits for a result within the deadline.
async fn in_time<T>(
    deadline: Option<Duration>,
    answer: impl Future<Output = Result<T, DbErr>> + Send,
) -> Result<T, DbErr> {
    let Some(limit) = deadline else {
        return answer.await;
    };
    let given_up = || DbErr::Conn(RuntimeErr::Internal(format!("{GIVEN_UP} {limit:?}")));
    tokio::time::timeout(limit, answer)
        .await
        .unwrap_or_else(|_| Err(given_up()))
}

/// Prefix of the error of a call that timed out.
const GIVEN_UP: &str = "no response within";

fn is_given_up(error: &DbErr) -> bool {
    matches!(error, DbErr::Conn(RuntimeErr::Internal(cause)) if cause.starts_with(GIVEN_UP))
}

/// What a SQLite connection is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    Read,
    Write,
    Migrate,
}

fn sqlite_options(url: &str, access: Access, durability: Durability) -> ConnectOptions {
    let mut options = ConnectOptions::new(url);
    let connections = match access {
        Access::Read => SQLITE_READERS_MAX,
        Access::Write | Access::Migrate => 1,
    };
    options
        .max_connections(connections)
        .min_connections(1)
        .acquire_timeout(BUSY_TIMEOUT)
        .test_before_acquire(false)
        .idle_timeout(None)
        .max_lifetime(None)
        .sqlx_slow_statements_logging_settings(log::LevelFilter::Warn, SLOW_STATEMENT)
        .sqlx_logging_level(log::LevelFilter::Trace)
        .record_stmt_in_spans(false)
        .map_sqlx_sqlite_opts(move |file| {
            let synchronous = match durability {
                Durability::Full => SqliteSynchronous::Full,
                Durability::Process => SqliteSynchronous::Normal,
            };
            let file = file
                .create_if_missing(true)
                .journal_mode(SqliteJournalMode::Wal)
                .synchronous(synchronous)
                .busy_timeout(BUSY_TIMEOUT)
                .foreign_keys(true)
                .pragma("temp_store", "memory")
                // SQLite overwrites deleted data in the file, so that a deleted encryption key cannot be recovered.
                .pragma("secure_delete", "true")
                .pragma("mmap_size", "134217728");
            match access {
                Access::Read => file.pragma("query_only", "true"),
                Access::Write => file.optimize_on_close(true, None),
                Access::Migrate => file.busy_timeout(MIGRATION_TIMEOUT),
            }
        })
        .map_sqlx_sqlite_pool_opts(move |pool| match access {
            Access::Read => pool
                .after_connect(|session, _| Box::pin(limit_run(session)))
                .before_acquire(|session, _| {
                    Box::pin(async move {
                        limit_run(session).await?;
                        Ok(true)
                    })
                }),
            Access::Write | Access::Migrate => pool,
        });
    options
}

/// Limits the run time of the next statement of a SQLite reader. A longer statement is interrupted: its caller no
/// longer waits, and the statement would occupy one of a few connections.
async fn limit_run(session: &mut SqliteConnection) -> sqlx::Result<()> {
    let until = Instant::now() + STATEMENT_TIMEOUT;
    let mut session = session.lock_handle().await?;
    session.set_progress_handler(STEPS_BETWEEN_LOOKS, move || Instant::now() < until);
    Ok(())
}

fn postgres_options(url: &str, doubts: &Arc<ConnectionDoubts>) -> ConnectOptions {
    let mut options = ConnectOptions::new(url);
    let (taken, back) = (doubts.clone(), doubts.clone());
    options
        .max_connections(CONNECTIONS_MAX)
        .min_connections(2)
        // Every call has a shorter deadline of its own.
        .acquire_timeout(ANSWER_TIMEOUT_MAX)
        .max_lifetime(Duration::from_secs(1_800))
        .test_before_acquire_if_idle_for(Duration::from_secs(30))
        .set_application_name("prs")
        .statement_timeout(STATEMENT_TIMEOUT)
        .sqlx_slow_statements_logging_settings(log::LevelFilter::Warn, SLOW_STATEMENT)
        .sqlx_logging_level(log::LevelFilter::Trace)
        .record_stmt_in_spans(false)
        .map_sqlx_postgres_opts(|session| {
            session.options([
                ("client_connection_check_interval", CONNECTION_CHECK),
                ("lock_timeout", LOCK_TIMEOUT),
                ("idle_in_transaction_session_timeout", IDLE_TIMEOUT),
            ])
        })
        .map_sqlx_postgres_before_acquire(move |_, known| {
            let is_good = !taken.is_outdated(known.age);
            Box::pin(async move { Ok(is_good) })
        })
        .map_sqlx_postgres_pool_opts(move |pool| {
            let doubts = back.clone();
            pool.after_release(move |session, known| {
                let doubts = doubts.clone();
                Box::pin(async move { doubts.is_sound(session, known.age).await })
            })
        });
    options
}

/// A transaction. If it is dropped without [`Tx::commit`], none of its writes remain.
pub struct Tx {
    session: tokio::sync::Mutex<PooledConnection>,
    backend: DbBackend,
    name: &'static str,
    started: Instant,
    /// Statements so far.
    statements: AtomicU32,
    deadline: Option<Duration>,
    sealer: Option<Arc<dyn Sealer>>,
}

impl Sealing for Tx {
    fn sealer(&self) -> Option<&dyn Sealer> {
        self.sealer.as_deref()
    }
}

impl Tx {
    /// Waits for the result of one more statement.
    async fn counted<T>(&self, answer: impl Future<Output = Result<T, DbErr>> + Send) -> Result<T, DbErr> {
        self.statements.fetch_add(1, Ordering::Relaxed);
        in_time(self.deadline, answer).await
    }

    /// Takes the lock of this name until the transaction ends; waits while another transaction holds the lock. SQLite
    /// has only one writer, so no lock is needed there.
    pub(super) async fn take_turn(&self, name: &str) -> Result<(), StoreError> {
        if self.get_database_backend() == DbBackend::Postgres {
            let lock = "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))";
            let statement = Statement::from_sql_and_values(DbBackend::Postgres, lock, [name.into()]);
            self.execute_raw(statement).await?;
        }
        Ok(())
    }

    /// Commits: makes all writes of the transaction durable and visible at once.
    ///
    /// Errors: the outcome is unknown after [`StoreError::Unavailable`].
    pub async fn commit(mut self) -> Result<(), StoreError> {
        crate::fail_at(self.name, "before_commit");
        let committed = in_time(self.deadline, self.session.get_mut().commit()).await;
        if committed.as_ref().is_err_and(is_given_up) {
            self.session.get_mut().suspect_commits();
        }
        committed?;
        crate::fail_at(self.name, "after_commit");
        let elapsed = self.started.elapsed();
        metrics::histogram!("prs_transaction_seconds", "name" => self.name).record(elapsed);
        let statements = self.statements.load(Ordering::Relaxed);
        tracing::trace!(transaction = self.name, statements, ?elapsed, "committed");
        Ok(())
    }
}

#[async_trait]
impl ConnectionTrait for Tx {
    fn get_database_backend(&self) -> DbBackend {
        self.backend
    }

    async fn execute_raw(&self, statement: Statement) -> Result<ExecResult, DbErr> {
        let answer = async { self.session.lock().await.execute(statement).await };
        self.counted(answer).await
    }

    async fn execute_unprepared(&self, sql: &str) -> Result<ExecResult, DbErr> {
        let answer = async { self.session.lock().await.execute_unprepared(sql).await };
        self.counted(answer).await
    }

    async fn query_one_raw(&self, statement: Statement) -> Result<Option<QueryResult>, DbErr> {
        let answer = async { self.session.lock().await.query_one(statement).await };
        self.counted(answer).await
    }

    async fn query_all_raw(&self, statement: Statement) -> Result<Vec<QueryResult>, DbErr> {
        let answer = async { self.session.lock().await.query_all(statement).await };
        self.counted(answer).await
    }
}
