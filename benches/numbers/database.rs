//! Empty PostgreSQL databases on the server that `cargo xtask bench` started.

use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Context;
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};

/// Names the server and its maintenance database.
const SERVER: &str = "PRS_BENCH_POSTGRES_URL";

static CREATED: AtomicUsize = AtomicUsize::new(0);

/// A database of our own.
#[derive(Debug)]
pub(crate) struct BenchDatabase {
    server: String,
    name: String,
    /// Its address.
    pub(crate) url: String,
}

impl BenchDatabase {
    /// Creates one; it is empty, without a schema.
    pub(crate) async fn create() -> anyhow::Result<Self> {
        let server =
            std::env::var(SERVER).with_context(|| format!("{SERVER} names no server; run `cargo xtask bench`"))?;
        let (root, _) = server
            .rsplit_once('/')
            .with_context(|| format!("{SERVER} names no database"))?;
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

    /// Removes it, together with connections that are still open.
    pub(crate) async fn remove(self) -> anyhow::Result<()> {
        self.order(format!("DROP DATABASE {} WITH (FORCE)", self.name)).await
    }

    async fn order(&self, statement: String) -> anyhow::Result<()> {
        let mut connection = PgConnection::connect(&self.server)
            .await
            .context("the PostgreSQL server does not answer")?;
        connection.execute(AssertSqlSafe(statement)).await?;
        connection.close().await?;
        Ok(())
    }
}
