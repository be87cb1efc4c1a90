//! Connections, transactions and migrations of both databases.

use super::{StoreError, schema};
use async_trait::async_trait;
use migration::{MigrationStatus, Migrator, MigratorTrait};
use sea_orm::{
    ConnectOptions, ConnectionTrait, Database, DatabaseConnection, DatabaseTransaction, DbBackend, DbErr, ExecResult,
    QueryResult, SqliteTransactionMode, Statement, TransactionOptions, TransactionTrait,
    sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous},
};
use std::{
    fmt,
    ops::Deref,
    str::FromStr,
    time::{Duration, Instant},
};

/// Longest wait for a PostgreSQL connection or the start of a transaction: a caller is told within two seconds that the
/// database is gone. Source: reliability rules D F4.
const ACQUIRE_TIMEOUT: Duration = Duration::from_millis(1_500);

/// Longest wait for a lock of PostgreSQL.
const LOCK_TIMEOUT: &str = "2s";

/// Longest run of one statement of PostgreSQL.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(5);

/// Longest wait for the single writer of SQLite.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Longest wait for a commit; afterwards its outcome is unknown to the caller.
const COMMIT_TIMEOUT: Duration = Duration::from_secs(5);

/// Connections of the PostgreSQL pool, and of the reader pool of SQLite.
const CONNECTIONS_MAX: u32 = 16;
const SQLITE_READERS_MAX: u32 = 8;

/// A statement that takes longer is logged.
const SLOW_STATEMENT: Duration = Duration::from_millis(250);

/// Key of the advisory lock that lets one process migrate at a time.
const MIGRATION_LOCK: i64 = 0x7072_735f_6d69_6772;

/// The database. Cheap to clone.
#[derive(Clone)]
pub struct Db {
    url: String,
    reader: DatabaseConnection,
    writer: DatabaseConnection,
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
        if url.starts_with("sqlite:") {
            Self::connect_sqlite(url).await
        } else if url.starts_with("postgres:") || url.starts_with("postgresql:") {
            let pool = Database::connect(postgres_options(url)).await?;
            Ok(Self {
                url: url.to_owned(),
                reader: pool.clone(),
                writer: pool,
            })
        } else {
            Err(StoreError::Broken(anyhow::anyhow!(
                "the database URL must start with sqlite: or postgres:"
            )))
        }
    }

    async fn connect_sqlite(url: &str) -> Result<Self, StoreError> {
        let file = SqliteConnectOptions::from_str(url).map_err(|error| StoreError::Broken(error.into()))?;
        let path = file.get_filename();
        if url.contains(":memory:") || url.contains("mode=memory") || path.as_os_str().is_empty() {
            return Err(StoreError::Broken(anyhow::anyhow!(
                "a SQLite database must be a file, because readers and the writer have connections of their own"
            )));
        }
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder).map_err(|error| StoreError::Unavailable(error.into()))?;
        }
        // The writer comes first: it creates the file and switches it to write-ahead logging.
        let writer = Database::connect(sqlite_options(url, Access::Write)).await?;
        let reader = Database::connect(sqlite_options(url, Access::Read)).await?;
        Ok(Self {
            url: url.to_owned(),
            reader,
            writer,
        })
    }

    /// Connection for reads outside a transaction.
    pub fn reader(&self) -> &DatabaseConnection {
        &self.reader
    }

    /// Connection for a write of one statement, which needs no transaction of its own to be atomic.
    pub fn writer(&self) -> &DatabaseConnection {
        &self.writer
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
        let started = Instant::now();
        let options = TransactionOptions {
            sqlite_transaction_mode: Some(SqliteTransactionMode::Immediate),
            ..Default::default()
        };
        let begun = self.writer.begin_with_options(options);
        let live = if self.is_postgres() {
            within(ACQUIRE_TIMEOUT, "begin", begun).await?
        } else {
            begun.await?
        };
        tracing::trace!(transaction = name, "begun");
        Ok(Tx { live, name, started })
    }

    /// Asks the database for a sign of life.
    pub async fn ping(&self) -> Result<(), StoreError> {
        within(ACQUIRE_TIMEOUT, "ping", self.reader.ping()).await
    }

    /// Applies all pending migrations.
    pub async fn migrate_up(&self) -> Result<(), StoreError> {
        let connection = self.migrating().await?;
        let result = Migrator::up(&connection, None).await;
        self.end_migrating(connection).await?;
        Ok(result?)
    }

    /// Undoes the newest `steps` migrations.
    pub async fn migrate_down(&self, steps: u32) -> Result<(), StoreError> {
        let connection = self.migrating().await?;
        let result = Migrator::down(&connection, Some(steps)).await;
        self.end_migrating(connection).await?;
        Ok(result?)
    }

    /// Every migration, oldest first. Changes nothing, not even in an empty database.
    pub async fn migrate_status(&self) -> Result<Vec<MigrationState>, StoreError> {
        let migrations = Migrator::get_migration_with_status_read_only(&self.reader).await?;
        Ok(migrations
            .iter()
            .map(|migration| MigrationState {
                name: migration.name().to_owned(),
                is_applied: migration.status() == MigrationStatus::Applied,
            })
            .collect())
    }

    /// The schema as text, in an order that does not depend on how it came about.
    pub async fn dump_schema(&self) -> Result<String, StoreError> {
        schema::dump(&self.reader).await
    }

    /// Closes the connections. SQLite refreshes its statistics on the way.
    pub async fn close(self) -> Result<(), StoreError> {
        self.reader.close().await?;
        // Both handles of PostgreSQL are one pool, and closing it twice does no harm.
        Ok(self.writer.close().await?)
    }

    /// A connection for migrations: on PostgreSQL without deadlines, since rewriting a large table takes its time, and
    /// under a lock that other processes wait for.
    async fn migrating(&self) -> Result<DatabaseConnection, StoreError> {
        if !self.is_postgres() {
            return Ok(self.writer.clone());
        }
        let mut options = ConnectOptions::new(&self.url);
        options
            .max_connections(1)
            .acquire_timeout(BUSY_TIMEOUT)
            .set_application_name("prs migrate")
            .record_stmt_in_spans(false);
        let connection = Database::connect(options).await?;
        connection
            .execute_unprepared(&format!("SELECT pg_advisory_lock({MIGRATION_LOCK})"))
            .await?;
        Ok(connection)
    }

    async fn end_migrating(&self, connection: DatabaseConnection) -> Result<(), StoreError> {
        if self.is_postgres() {
            // The lock ends with its session.
            connection.close().await?;
        }
        Ok(())
    }
}

/// What a SQLite connection is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    Read,
    Write,
}

fn sqlite_options(url: &str, access: Access) -> ConnectOptions {
    let mut options = ConnectOptions::new(url);
    let connections = match access {
        Access::Read => SQLITE_READERS_MAX,
        Access::Write => 1,
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
            // Normal synchronisation survives the death of the process; what a power cut could take back are the last
            // commits, never the integrity of the file.
            let file = file
                .create_if_missing(true)
                .journal_mode(SqliteJournalMode::Wal)
                .synchronous(SqliteSynchronous::Normal)
                .busy_timeout(BUSY_TIMEOUT)
                .foreign_keys(true)
                .pragma("temp_store", "memory")
                .pragma("mmap_size", "134217728");
            match access {
                Access::Read => file.pragma("query_only", "true"),
                Access::Write => file.optimize_on_close(true, None),
            }
        });
    options
}

fn postgres_options(url: &str) -> ConnectOptions {
    let mut options = ConnectOptions::new(url);
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
                ("idle_in_transaction_session_timeout", "30s"),
            ])
        });
    options
}

/// Waits for the database, but not for ever.
async fn within<T>(
    limit: Duration,
    what: &'static str,
    answer: impl Future<Output = Result<T, DbErr>>,
) -> Result<T, StoreError> {
    match tokio::time::timeout(limit, answer).await {
        Ok(result) => Ok(result?),
        Err(_) => Err(StoreError::Unavailable(anyhow::anyhow!(
            "{what} took longer than {limit:?}"
        ))),
    }
}

/// A writing transaction. Dropped without [`Tx::commit`], it leaves no trace.
#[derive(Debug)]
pub struct Tx {
    live: DatabaseTransaction,
    name: &'static str,
    started: Instant,
}

impl Tx {
    /// Makes everything that was written in it durable and visible at once.
    pub async fn commit(self) -> Result<(), StoreError> {
        within(COMMIT_TIMEOUT, "commit", self.live.commit()).await?;
        let elapsed = self.started.elapsed();
        metrics::histogram!("prs_transaction_seconds", "name" => self.name).record(elapsed);
        tracing::trace!(transaction = self.name, ?elapsed, "committed");
        Ok(())
    }
}

impl Deref for Tx {
    type Target = DatabaseTransaction;

    fn deref(&self) -> &DatabaseTransaction {
        &self.live
    }
}

#[async_trait]
impl ConnectionTrait for Tx {
    fn get_database_backend(&self) -> DbBackend {
        self.live.get_database_backend()
    }

    async fn execute_raw(&self, statement: Statement) -> Result<ExecResult, DbErr> {
        self.live.execute_raw(statement).await
    }

    async fn execute_unprepared(&self, sql: &str) -> Result<ExecResult, DbErr> {
        self.live.execute_unprepared(sql).await
    }

    async fn query_one_raw(&self, statement: Statement) -> Result<Option<QueryResult>, DbErr> {
        self.live.query_one_raw(statement).await
    }

    async fn query_all_raw(&self, statement: Statement) -> Result<Vec<QueryResult>, DbErr> {
        self.live.query_all_raw(statement).await
    }
}
