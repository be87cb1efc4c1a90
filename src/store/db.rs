//! Connections, transactions and migrations of both databases.

use super::{
    StoreError, driver_error, reach, schema,
    sealed::Sealing,
    session::{Doubts, Session, is_missing_function, is_missing_table, is_read_only},
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

/// Longest wait for a PostgreSQL connection or the start of a transaction: a caller is told within two seconds that the
/// database is gone. Source: rules D.4.
const ACQUIRE_TIMEOUT: Duration = Duration::from_millis(1_500);

/// Longest wait for a lock of PostgreSQL.
const LOCK_TIMEOUT: &str = "2s";

/// Longest pause within a transaction of PostgreSQL: somebody who is out of reach holds its locks no longer, so that
/// another instance can take over.
const IDLE_TIMEOUT: &str = "4s";

/// Longest run of one statement of PostgreSQL, and of one that reads SQLite.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(5);

/// Steps of SQLite's machine between two looks at the time: some milliseconds.
const STEPS_BETWEEN_LOOKS: i32 = 100_000;

/// Longest wait for the single writer of SQLite.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Longest wait for another process that migrates the same SQLite file.
const MIGRATION_TIMEOUT: Duration = Duration::from_mins(10);

/// Longest wait of background work for one statement or commit of PostgreSQL, a second more than the server gives a
/// statement; afterwards the outcome of a commit is unknown.
const PATIENCE: Duration = Duration::from_secs(6);

/// The same for somebody who waits for an answer, unless the settings say otherwise. Source: rules D.4.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(1_200);

/// Connections of the PostgreSQL pool, and of the reader pool of SQLite.
const CONNECTIONS_MAX: u32 = 16;
const SQLITE_READERS_MAX: u32 = 8;

/// A statement that takes longer is logged.
const SLOW_STATEMENT: Duration = Duration::from_millis(250);

/// What a session of PostgreSQL is called during a try to write.
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
    /// Held while the write-ahead log is emptied.
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
    /// SQLite gets one writing connection and a pool of reading ones, because several writers would only wait for each
    /// other; PostgreSQL has one pool for both.
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        Self::connect_with(url, Durability::Full).await
    }

    /// What stands between this process and the server, with its address and never with a password; `None` when nothing
    /// does. SQLite is a file, whose errors say it themselves.
    pub async fn obstacle(&self) -> Option<String> {
        match self.is_postgres() {
            true => reach::obstacle(self.url()).await,
            false => None,
        }
    }

    /// Like [`Self::connect`], with another durability of SQLite; that of PostgreSQL is a matter of its server.
    pub async fn connect_with(url: &str, durability: Durability) -> Result<Self, StoreError> {
        if url.starts_with("sqlite:") {
            Self::connect_sqlite(url, durability).await
        } else if url.starts_with("postgres:") || url.starts_with("postgresql:") {
            let doubts = Arc::new(Doubts::default());
            let live = match Database::connect(postgres_options(url, &doubts)).await {
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
        // The writer comes first: it creates the file and switches it to write-ahead logging.
        let writer = Database::connect(sqlite_options(url, Access::Write, durability)).await?;
        let reader = Database::connect(sqlite_options(url, Access::Read, durability)).await?;
        // SQLite is a file of this machine: it has a deadline for its lock, and no network that could be silent.
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

    /// The same database for somebody who waits at most this long for each answer of PostgreSQL.
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

    /// The same database for background work, where nobody waits and a statement may take its time.
    #[must_use]
    pub fn patient(&self) -> Self {
        self.answering_within(PATIENCE)
    }

    /// The same database with the keys that its personal columns are sealed with.
    #[must_use]
    pub fn sealed_with(mut self, sealer: &Arc<dyn Sealer>) -> Self {
        self.reader.sealer = Some(sealer.clone());
        self.writer.sealer = Some(sealer.clone());
        self
    }

    /// The keys that its personal columns are sealed with.
    pub fn sealer(&self) -> Option<Arc<dyn Sealer>> {
        self.reader.sealer.clone()
    }

    /// Connection for reads outside a transaction.
    pub fn reader(&self) -> &Connection {
        &self.reader
    }

    /// Connection for a write of one statement, which is a transaction of its own: it goes over a session that is outside of
    /// every other one. A session comes back to its pool only after the end of the transaction that was begun on it was
    /// answered ([`Session`]).
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
    /// On SQLite it takes the write lock at once: a transaction that reads first and writes later would fail as busy
    /// whenever somebody else has written in between.
    pub async fn begin(&self, name: &'static str) -> Result<Tx, StoreError> {
        let statement = match self.is_postgres() {
            true => "BEGIN",
            false => "BEGIN IMMEDIATE",
        };
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

    /// What the clock of a PostgreSQL server shows, by its last answer to [`Self::ask_time`]; `None` for SQLite, whose clock
    /// is that of the machine.
    pub fn time(&self) -> Option<DateTime<Utc>> {
        self.clock.at(Instant::now())
    }

    /// Asks a PostgreSQL server for the time.
    pub async fn ask_time(&self) -> Result<(), StoreError> {
        if self.is_postgres() {
            let asked = Instant::now();
            let shown = time::now(self.reader()).await?;
            self.clock.correct(asked, shown, Instant::now());
        }
        Ok(())
    }

    /// Takes a connection, and returns a try to write on it that changes no row and has no deadline; it tells whether the
    /// database takes writes. On PostgreSQL it leaves a word in the log that nothing reads, so that its commit waits for
    /// whatever other commits wait for, such as a standby. It waits for no lock.
    pub async fn try_write(&self) -> Result<impl Future<Output = Result<bool, StoreError>> + use<>, StoreError> {
        let doubts = self.writer.doubts.clone();
        let mut session = Session::acquire(&self.writer.live, &doubts).await?;
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

    /// Says that tries to write are made from now on, so that a commit that is not answered may have writes refused until one
    /// of them is answered.
    pub fn watch_writes(&self) {
        self.writer.doubts.note_watched();
    }

    /// Replaces the connections that are older than now, as they are used.
    pub fn replace_connections(&self) {
        self.writer.doubts.outdate_older();
    }

    /// Ends tries, of all instances, that PostgreSQL has worked on for longer than any instance waits.
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

    /// Refuses writes at once while the server answers no commit, so that their sessions do not pile up there.
    pub fn refuse_writes(&self, is_hanging: bool) {
        self.writer.doubts.note_hanging(is_hanging);
    }

    /// Waits until an answer of the database was given up since the last wait.
    pub async fn wait_for_given_up(&self) {
        self.writer.doubts.wait_for_given_up().await;
    }

    /// The deadline of what ends soon or not at all, however patient the caller is.
    fn acquiring(&self) -> Option<Duration> {
        self.reader.deadline.map(|limit| limit.min(ACQUIRE_TIMEOUT))
    }

    /// Applies all pending migrations. Another process that migrates is waited for.
    pub async fn migrate_up(&self) -> Result<(), StoreError> {
        self.migrate(Direction::Up).await
    }

    /// Undoes the newest `steps` migrations. Another process that migrates is waited for.
    pub async fn migrate_down(&self, steps: u32) -> Result<(), StoreError> {
        self.migrate(Direction::Down(steps)).await
    }

    /// Migrates on a connection of its own, without the deadlines of the others: rewriting a large table takes its time.
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

    /// Migrates while no other process does: what is missing is looked up under the lock, which ends at the latest with
    /// the connection.
    async fn migrate_alone(&self, connection: &DatabaseConnection, direction: Direction) -> Result<(), StoreError> {
        if self.is_postgres() {
            let lock = format!("SELECT pg_advisory_lock({MIGRATION_LOCK})");
            connection.execute_unprepared(&lock).await?;
            if let Direction::Down(_) = direction {
                // One that refuses leaves everything as it was.
                let tx = connection.begin().await?;
                direction.run(&tx).await?;
                return Ok(tx.commit().await?);
            }
            return direction.run(connection).await;
        }
        // The lock of SQLite is a transaction, so that all migrations are applied or none.
        let options = TransactionOptions {
            sqlite_transaction_mode: Some(SqliteTransactionMode::Immediate),
            ..Default::default()
        };
        let tx = connection.begin_with_options(options).await?;
        direction.run(&tx).await?;
        Ok(tx.commit().await?)
    }

    /// Empties the write-ahead log of SQLite, which keeps what rows held before; tells whether nobody was in the way.
    pub async fn checkpoint(&self) -> Result<bool, StoreError> {
        if self.is_postgres() {
            return Ok(true);
        }
        // Each emptying keeps writes waiting; one that is under way does not hold what was written since.
        let Ok(_emptying) = self.emptying.try_lock() else {
            return Ok(false);
        };
        let emptied = self.empty_log().await;
        Ok(emptied.map_err(|error| DbErr::Query(RuntimeErr::SqlxError(error.into())))?)
    }

    /// Waits for nobody: whoever reads the file meanwhile would keep every write waiting.
    async fn empty_log(&self) -> sqlx::Result<bool> {
        let mut session = self.writer.live.get_sqlite_connection_pool().acquire().await?;
        // One that waits for nobody is none for writes, however this ends.
        session.close_on_drop();
        sqlx::query("PRAGMA busy_timeout = 0").execute(&mut *session).await?;
        let checkpoint = sqlx::query_scalar::<_, i32>("PRAGMA wal_checkpoint(TRUNCATE)");
        let busy = checkpoint.fetch_one(&mut *session).await?;
        // Closing refreshes statistics, for which a writer may leave no room; the log is empty by then.
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

    /// Whether every migration that this program knows is applied. A database may be ahead of it.
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

    /// The schema as text, in an order that does not depend on how it came about.
    pub async fn dump_schema(&self) -> Result<String, StoreError> {
        schema::dump(&self.unhurried()).await
    }

    /// The reader for what a command asks about the whole schema, however long that takes.
    fn unhurried(&self) -> Connection {
        Connection {
            deadline: None,
            ..self.reader.clone()
        }
    }

    /// Closes the connections. SQLite refreshes its statistics on the way.
    pub async fn close(self) -> Result<(), StoreError> {
        self.reader.live.close().await?;
        // Both handles of PostgreSQL are one pool, and closing it twice does no harm.
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

/// What the library says of each migration that a database has and this program does not.
const UNKNOWN_MIGRATION: &str = "this migration has been applied but its file is missing";

/// Says in one sentence that another version made the database, where the library lists all migrations.
fn named(error: DbErr) -> StoreError {
    match error {
        DbErr::Custom(text) if text.contains(UNKNOWN_MIGRATION) => StoreError::Broken(anyhow::anyhow!(
            "another version of this program made the database: it has migrations that this one does not know; run that \
             version, or begin with an empty database"
        )),
        other => other.into(),
    }
}

/// A way to the database that does not wait for ever.
#[derive(Clone)]
pub struct Connection {
    live: DatabaseConnection,
    doubts: Arc<Doubts>,
    /// How long one answer is waited for; `None` on SQLite. The server has deadlines of its own, but a network that swallows
    /// everything keeps them from being heard.
    deadline: Option<Duration>,
    /// Whether it writes, and is refused while the server answers no commit.
    is_refused_while_hanging: bool,
    /// `None` before the master keys are known.
    sealer: Option<Arc<dyn Sealer>>,
}

impl Connection {
    /// Waits for the answer to one statement, which commits itself. A write that is not answered in time has further ones
    /// refused until a try is.
    async fn answered<T>(&self, answer: impl Future<Output = Result<T, DbErr>> + Send) -> Result<T, DbErr> {
        let answer = in_time(self.deadline, answer).await;
        if self.is_refused_while_hanging && answer.as_ref().is_err_and(is_given_up) {
            self.doubts.suspect_commits();
        }
        answer
    }

    async fn session(&self) -> Result<Session, DbErr> {
        if self.is_refused_while_hanging && self.doubts.is_hanging() {
            let cause = "the server answers no commit".to_owned();
            return Err(DbErr::Conn(RuntimeErr::Internal(cause)));
        }
        Session::acquire(&self.live, &self.doubts).await
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

/// Tries to write on a session of PostgreSQL.
async fn try_postgres(session: &mut Session, doubts: &Doubts) -> Result<bool, StoreError> {
    let message = match doubts.may_leave_messages() {
        true => "pg_logical_emit_message(true, 'prs', 'try')::text",
        false => "'no message'",
    };
    // The name lasts as long as the transaction, and longer than its wait for a standby.
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
                "this role may not call pg_logical_emit_message, so that commits that are not answered are noticed late"
            );
            doubts.leave_no_messages();
            return Err(error.into());
        }
        row => row?,
    };
    let message: Option<String> = row.map(|row| row.try_get("", "message")).transpose()?.flatten();
    if message.is_none() {
        // Connections of a server that only reads are of no use for writes.
        doubts.outdate_older();
    }
    Ok(message.is_some())
}

/// Waits for an answer as long as the deadline allows.
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

/// How the error of an answer that was waited for too long begins.
const GIVEN_UP: &str = "no answer within";

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
                // What is overwritten or deleted leaves no trace in the file: a key that is gone stays gone.
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

/// Gives the next statement of a reading connection of SQLite its time, after which it is interrupted: nobody waits for its
/// answer any more, and it would keep one of a few connections.
async fn limit_run(session: &mut SqliteConnection) -> sqlx::Result<()> {
    let until = Instant::now() + STATEMENT_TIMEOUT;
    let mut session = session.lock_handle().await?;
    session.set_progress_handler(STEPS_BETWEEN_LOOKS, move || Instant::now() < until);
    Ok(())
}

fn postgres_options(url: &str, doubts: &Arc<Doubts>) -> ConnectOptions {
    let mut options = ConnectOptions::new(url);
    let (taken, back) = (doubts.clone(), doubts.clone());
    options
        .max_connections(CONNECTIONS_MAX)
        .min_connections(2)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        .max_lifetime(Duration::from_secs(1_800))
        .test_before_acquire_if_idle_for(Duration::from_secs(30))
        .set_application_name("prs")
        .statement_timeout(STATEMENT_TIMEOUT)
        .sqlx_slow_statements_logging_settings(log::LevelFilter::Warn, SLOW_STATEMENT)
        .sqlx_logging_level(log::LevelFilter::Trace)
        .record_stmt_in_spans(false)
        .map_sqlx_postgres_opts(|session| {
            session.options([
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

/// A transaction. Dropped without [`Tx::commit`], it leaves no trace.
pub struct Tx {
    session: tokio::sync::Mutex<Session>,
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
    /// Waits for the answer to one more statement.
    async fn counted<T>(&self, answer: impl Future<Output = Result<T, DbErr>> + Send) -> Result<T, DbErr> {
        self.statements.fetch_add(1, Ordering::Relaxed);
        in_time(self.deadline, answer).await
    }

    /// Waits for the end of all others that took a turn of this name, and keeps further ones waiting. SQLite has one writer,
    /// whose turn it is in any case.
    pub(super) async fn take_turn(&self, name: &str) -> Result<(), StoreError> {
        if self.get_database_backend() == DbBackend::Postgres {
            let lock = "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))";
            let statement = Statement::from_sql_and_values(DbBackend::Postgres, lock, [name.into()]);
            self.execute_raw(statement).await?;
        }
        Ok(())
    }

    /// Makes everything that was written in it durable and visible at once.
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
