//! The bare counterpart of the service: axum and sqlx, one prepared statement and no checks. It cannot take payments;
//! it shows the minimum cost of the HTTP stack and the database.

use std::net::Ipv4Addr;
use std::sync::Arc;

use anyhow::Context;
use axum::{
    Json, Router,
    extract::{Path, State},
    http::StatusCode,
    routing::{get, post},
};
use chrono::{DateTime, Utc};
use prs::{
    adapters::{clock::SystemClock, ids::SystemIds},
    ports::{
        clock::Clock,
        ids::{Ids, random},
    },
};
use serde::{Deserialize, Serialize};
use sqlx::{
    PgPool, Row,
    postgres::{PgPoolOptions, PgRow},
};
use tokio::net::TcpListener;

/// Number of connections of the pool, the same number as in the service.
const CONNECTIONS_MAX: u32 = 16;

/// Inserts every column that a plain request fills. All other columns are null, as in the service.
const INSERT: &str = "INSERT INTO requests (id, platform_id, request_id, salt, reference, reference_topic, kind, status, \
     network, payee, amount, invoice_currency, payment_currency, token, expected, credited, payment_count, \
     is_recurrence_stopped, is_crypto_to_fiat, is_listening, created_at, updated_at) VALUES ($1, $2, $3, $4, $5, $6, \
     'direct', 'pending', 'sepolia', $7, $8, $9, $10, $11, '1500000000000000000', '0', 0, false, false, false, $12, $12)";

/// Reads what a payer sees of a link, except its requests.
const READ: &str = "SELECT token, status, flow, network, reference, redirect_url, expires_at FROM secure_payments \
     WHERE token = $1";

/// The token of every created request; it is as long as a token of the service.
const TOKEN: &str = "0x370de27fdb7d1ff1e1baa7d11c5820a324cf623c";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NewRequest {
    payee: String,
    amount: String,
    invoice_currency: String,
    payment_currency: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Created {
    payment_reference: String,
    request_id: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Link {
    token: String,
    status: String,
    flow: String,
    network: String,
    reference: Option<String>,
    redirect_url: Option<String>,
    expires_at: DateTime<Utc>,
}

struct Bare {
    pool: PgPool,
    ids: SystemIds,
    platform_id: String,
}

/// Serves until it is killed.
pub(crate) fn serve(port: u16, database_url: Option<&str>) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut router = Router::new().route("/health", get(|| async { "ok" }));
        if let Some(url) = database_url {
            let pool = PgPoolOptions::new()
                .max_connections(CONNECTIONS_MAX)
                .connect(url)
                .await
                .context("no database")?;
            let ids = SystemIds::new(Arc::new(SystemClock));
            let bare = Bare {
                pool,
                platform_id: ids.ulid(),
                ids,
            };
            router = router.merge(
                Router::new()
                    .route("/v2/request", post(create))
                    .route("/v2/secure-payments/{token}", get(read))
                    .with_state(Arc::new(bare)),
            );
        }
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        axum::serve(listener, router).await?;
        Ok(())
    })
}

async fn read(State(bare): State<Arc<Bare>>, Path(token): Path<String>) -> Result<Json<Link>, StatusCode> {
    let found = sqlx::query(READ).bind(token).fetch_optional(&bare.pool).await;
    let link = |row: &PgRow| -> sqlx::Result<Link> {
        Ok(Link {
            token: row.try_get(0)?,
            status: row.try_get(1)?,
            flow: row.try_get(2)?,
            network: row.try_get(3)?,
            reference: row.try_get(4)?,
            redirect_url: row.try_get(5)?,
            expires_at: row.try_get(6)?,
        })
    };
    match found.map(|row| row.as_ref().map(link).transpose()) {
        Ok(Ok(Some(link))) => Ok(Json(link)),
        Ok(Ok(None)) => Err(StatusCode::NOT_FOUND),
        Ok(Err(_)) | Err(_) => Err(StatusCode::INTERNAL_SERVER_ERROR),
    }
}

async fn create(
    State(bare): State<Arc<Bare>>,
    Json(input): Json<NewRequest>,
) -> Result<(StatusCode, Json<Created>), StatusCode> {
    let created = Created {
        payment_reference: format!("0x{}", hex::encode(random::<8>(&bare.ids))),
        request_id: format!("01{}", hex::encode(random::<32>(&bare.ids))),
    };
    let inserted = sqlx::query(INSERT)
        .bind(bare.ids.ulid())
        .bind(&bare.platform_id)
        .bind(&created.request_id)
        .bind(hex::encode(random::<8>(&bare.ids)))
        .bind(&created.payment_reference)
        .bind(format!("0x{}", hex::encode(random::<32>(&bare.ids))))
        .bind(input.payee)
        .bind(input.amount)
        .bind(input.invoice_currency)
        .bind(input.payment_currency)
        .bind(TOKEN)
        .bind(SystemClock.now())
        .execute(&bare.pool)
        .await;
    match inserted {
        Ok(_) => Ok((StatusCode::CREATED, Json(created))),
        Err(_) => Err(StatusCode::INTERNAL_SERVER_ERROR),
    }
}
