//! Inserts endpoints and waiting events directly into the database, because only their delivery is measured.

use std::time::Instant;

use chrono::{DateTime, Utc};
use prs::{
    adapters::clock::SystemClock,
    ctx::Ctx,
    domain::ids::{PlatformId, Secret},
    payloads::{self, ProcessorNames},
    ports::{clock::Clock, sealer::EncryptionContext},
    store::event_log::body_place,
};
use sqlx::{Connection, PgConnection, Postgres, QueryBuilder};

use anyhow::Context;

/// Rows of one statement.
const ROWS_PER_INSERT: usize = 1_000;

/// Secret of every endpoint.
pub(crate) const SECRET: &str = "f3c189a4b5e6d7f8a9b0c1d2e3f4a5b6c7d8e9f0a1b2c3d4e5f6a7b8c9d0e1f2";

/// The body of every event: a real sample of typical length.
pub(crate) fn body() -> anyhow::Result<String> {
    payloads::sample("payment.confirmed", &ProcessorNames::default()).context("no sample of payment.confirmed")
}

/// A database connection that inserts the rows of a benchmark.
pub(crate) struct Queue {
    connection: PgConnection,
    ctx: Ctx,
    platform: PlatformId,
    body: String,
}

impl Queue {
    /// Connects to the database of the service.
    pub(crate) async fn open(url: &str, ctx: Ctx, platform: PlatformId) -> anyhow::Result<Self> {
        Ok(Self {
            connection: PgConnection::connect(url).await?,
            ctx,
            platform,
            body: body()?,
        })
    }

    /// Registers an endpoint; returns its id.
    pub(crate) async fn endpoint(&mut self, url: &str) -> anyhow::Result<String> {
        let id = self.ctx.ids.ulid();
        let place = EncryptionContext {
            column: "webhook_endpoints.secret",
            owner: self.platform.as_str(),
            row: &id,
        };
        let sealed = self.ctx.sealer.seal(&Secret::new(SECRET), place)?;
        sqlx::query(
            "INSERT INTO webhook_endpoints (id, owner_id, url, secret_sealed, is_active, created_at) \
             VALUES ($1, $2, $3, $4, true, $5)",
        )
        .bind(&id)
        .bind(self.platform.as_str())
        .bind(url)
        .bind(sealed)
        .bind(SystemClock.now())
        .execute(&mut self.connection)
        .await?;
        Ok(id)
    }

    /// Commits an event for each of these endpoints, with its delivery; returns the ids of the deliveries and the time
    /// of the commit.
    pub(crate) async fn add(&mut self, endpoints: &[String]) -> anyhow::Result<(Vec<String>, Instant)> {
        let mut deliveries = Vec::with_capacity(endpoints.len());
        let now = SystemClock.now();
        let mut transaction = self.connection.begin().await?;
        for part in endpoints.chunks(ROWS_PER_INSERT) {
            let rows: Vec<(String, String, &String)> = part
                .iter()
                .map(|endpoint| (self.ctx.ids.ulid(), self.ctx.ids.ulid(), endpoint))
                .collect();
            let bodies = seal_bodies(&self.ctx, &self.platform, &rows, &self.body)?;
            insert_events(&mut transaction, &rows, &bodies, &self.platform, now).await?;
            insert_deliveries(&mut transaction, &rows, &self.platform, now).await?;
            deliveries.extend(rows.into_iter().map(|(_, delivery, _)| delivery));
        }
        transaction.commit().await?;
        Ok((deliveries, Instant::now()))
    }

    /// Unfinished deliveries.
    pub(crate) async fn waiting(&mut self) -> anyhow::Result<i64> {
        let count = sqlx::query_scalar("SELECT count(*) FROM delivery_queue");
        Ok(count.fetch_one(&mut self.connection).await?)
    }

    /// Bytes of WAL that the server has written so far, by all connections.
    pub(crate) async fn logged_bytes(&mut self) -> anyhow::Result<i64> {
        let bytes = sqlx::query_scalar("SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint");
        Ok(bytes.fetch_one(&mut self.connection).await?)
    }

    /// The duration of the longest attempt, in seconds.
    pub(crate) async fn longest_try_s(&mut self) -> anyhow::Result<f64> {
        let longest = sqlx::query_scalar(
            "SELECT coalesce(max(extract(epoch FROM ended_at - started_at)), 0)::float8 FROM (\
             SELECT started_at, ended_at FROM delivery_attempts \
             UNION ALL SELECT success_started_at, success_ended_at FROM deliveries) AS tries(started_at, ended_at)",
        );
        Ok(longest.fetch_one(&mut self.connection).await?)
    }

    /// Deletes all events and deliveries, and disables every endpoint.
    pub(crate) async fn clear(&mut self) -> anyhow::Result<()> {
        for statement in [
            "TRUNCATE delivery_queue, delivery_attempts, deliveries, events CASCADE",
            "UPDATE webhook_endpoints SET is_active = false",
        ] {
            sqlx::query(statement).execute(&mut self.connection).await?;
        }
        Ok(())
    }

    /// Re-enables an endpoint.
    pub(crate) async fn switch_on(&mut self, endpoint: &str) -> anyhow::Result<()> {
        let switch = sqlx::query("UPDATE webhook_endpoints SET is_active = true WHERE id = $1").bind(endpoint);
        switch.execute(&mut self.connection).await?;
        Ok(())
    }

    /// Updates the planner statistics of PostgreSQL, which autovacuum would update only later.
    pub(crate) async fn analyze(&mut self) -> anyhow::Result<()> {
        sqlx::query("ANALYZE").execute(&mut self.connection).await?;
        Ok(())
    }
}

/// Encrypts the body for each event, as the column of the body requires.
fn seal_bodies(
    ctx: &Ctx,
    platform: &PlatformId,
    rows: &[(String, String, &String)],
    body: &str,
) -> anyhow::Result<Vec<String>> {
    let seal = |(event, _, _): &(String, String, &String)| {
        let place = body_place(platform.as_str(), event);
        ctx.sealer.seal(&Secret::new(body), place)
    };
    rows.iter().map(seal).collect()
}

async fn insert_events(
    connection: &mut PgConnection,
    rows: &[(String, String, &String)],
    bodies: &[String],
    platform: &PlatformId,
    now: DateTime<Utc>,
) -> anyhow::Result<()> {
    let mut insert: QueryBuilder<Postgres> =
        QueryBuilder::new("INSERT INTO events (id, owner_id, kind, deduplication_key, body, created_at) ");
    insert.push_values(rows.iter().zip(bodies), |mut row, ((event, _, _), body)| {
        row.push_bind(event)
            .push_bind(platform.as_str())
            .push_bind("payment.confirmed")
            .push_bind(format!("bench:{event}"))
            .push_bind(body)
            .push_bind(now);
    });
    insert.build().execute(connection).await?;
    Ok(())
}

async fn insert_deliveries(
    connection: &mut PgConnection,
    rows: &[(String, String, &String)],
    platform: &PlatformId,
    now: DateTime<Utc>,
) -> anyhow::Result<()> {
    let mut insert: QueryBuilder<Postgres> = QueryBuilder::new(
        "INSERT INTO deliveries (id, event_id, endpoint_id, owner_id, state, retry_count, is_test, created_at) ",
    );
    insert.push_values(rows, |mut row, (event, delivery, endpoint)| {
        row.push_bind(delivery)
            .push_bind(event)
            .push_bind(*endpoint)
            .push_bind(platform.as_str())
            .push_bind("queued")
            .push_bind(0)
            .push_bind(false)
            .push_bind(now);
    });
    insert.build().execute(&mut *connection).await?;
    let mut insert: QueryBuilder<Postgres> = QueryBuilder::new(
        "INSERT INTO delivery_queue (id, event_id, endpoint_id, owner_id, is_test, is_replay, retry_count, next_at) ",
    );
    insert.push_values(rows, |mut row, (event, delivery, endpoint)| {
        row.push_bind(delivery)
            .push_bind(event)
            .push_bind(*endpoint)
            .push_bind(platform.as_str())
            .push_bind(false)
            .push_bind(false)
            .push_bind(0)
            .push_bind(now);
    });
    insert.build().execute(connection).await?;
    Ok(())
}
