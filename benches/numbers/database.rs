//! Empty PostgreSQL databases on the servers that `cargo xtask bench` started.

use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, ensure};
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};

/// Environment variable with the URL of the maintenance database on the server that does not wait for the disk.
const SERVER: &str = "PRS_BENCH_POSTGRES_URL";

/// Environment variable with the URL of the maintenance database on the durable server.
const DURABLE_SERVER: &str = "PRS_BENCH_DURABLE_POSTGRES_URL";

static CREATED: AtomicUsize = AtomicUsize::new(0);

/// A separate database.
#[derive(Debug)]
pub(crate) struct BenchDatabase {
    server: String,
    name: String,
    /// Its URL.
    pub(crate) url: String,
}

impl BenchDatabase {
    /// Creates an empty database without a schema.
    pub(crate) async fn create() -> anyhow::Result<Self> {
        Self::create_on(SERVER).await
    }

    /// Creates a database that keeps confirmed commits when the machine fails: with `fsync`, `synchronous_commit` and
    /// `full_page_writes`.
    pub(crate) async fn create_durable() -> anyhow::Result<Self> {
        let database = Self::create_on(DURABLE_SERVER).await?;
        let mut connection = PgConnection::connect(&database.url).await?;
        for setting in ["fsync", "synchronous_commit", "full_page_writes"] {
            let value: String = sqlx::query_scalar("SELECT current_setting($1)")
                .bind(setting)
                .fetch_one(&mut connection)
                .await?;
            ensure!(value == "on", "{setting} is {value}");
        }
        connection.close().await?;
        Ok(database)
    }

    async fn create_on(server: &str) -> anyhow::Result<Self> {
        let variable = server;
        let server =
            std::env::var(variable).with_context(|| format!("{variable} names no server; run `cargo xtask bench`"))?;
        let (root, _) = server
            .rsplit_once('/')
            .with_context(|| format!("{variable} names no database"))?;
        let name = format!(
            "prs_bench_{}_{}",
            std::process::id(),
            CREATED.fetch_add(1, Ordering::Relaxed)
        );
        let url = format!("{root}/{name}");
        let database = Self { server, name, url };
        database.order(format!("CREATE DATABASE {}", database.name)).await?;
        Ok(database)
    }

    /// Removes the database, and closes its open connections.
    pub(crate) async fn remove(self) -> anyhow::Result<()> {
        self.order(format!("DROP DATABASE {} WITH (FORCE)", self.name)).await
    }

    async fn order(&self, statement: String) -> anyhow::Result<()> {
        let mut connection = PgConnection::connect(&self.server)
            .await
            .context("the PostgreSQL server does not respond")?;
        connection.execute(AssertSqlSafe(statement)).await?;
        connection.close().await?;
        Ok(())
    }
}
