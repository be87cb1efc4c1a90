//! Starts the service and stops it gracefully.

use crate::{
    boot::{
        context,
        documents::{self, Document},
        health::{self, Health},
        identity::Identity,
        open_database,
        role::Role,
    },
    ctx::Ctx,
    http::{
        contract::{apis, described::Described, docs, routes::RouteTable},
        edge::{self, Edge, cors::AllowedOrigins, limits::Limits, server},
        error::probed,
        gate::{identify::Identify, rate_limits::RateLimits},
    },
    settings::Settings,
    worker::{self, Workers, deliver_webhooks, watch_chains},
};
use anyhow::Context;
use poem::{
    EndpointExt, Response, Route,
    endpoint::{BoxEndpoint, make, make_sync},
    get,
};
use poem_openapi::OpenApiService;
use serde_json::{Value, json};
use std::{net::SocketAddr, sync::Arc, time::Duration};
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// Serves until the process is told to stop.
pub async fn run(settings: &Settings, role: Role) -> anyhow::Result<()> {
    let ctx = context(settings, open_database(settings).await?)?;
    run_with(settings, ctx, role, || {}).await
}

/// Serves with handles that are already built; `ready` is called once connections are accepted.
pub async fn run_with(settings: &Settings, ctx: Ctx, role: Role, ready: impl FnOnce()) -> anyhow::Result<()> {
    let stop = CancellationToken::new();
    let tasks = TaskTracker::new();
    let mut listeners = vec![bind(settings.http.listen).await.context("http.listen")?];
    if let Some(listen) = settings.http.auth_listen {
        listeners.push(bind(listen).await.context("http.auth_listen")?);
    }
    let workers = if role == Role::Api {
        Workers::default()
    } else {
        worker::start(&ctx, delivery_options(settings), polls(settings), &stop, &tasks)
    };
    let app = app(settings, &ctx, role, workers);
    let asked = stop.clone();
    let mut signals = [signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?];
    tokio::spawn(async move {
        let [terminate, interrupt] = &mut signals;
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("stopping");
        asked.cancel();
    });
    // The sockets listen already; calls that come now wait for the loop that starts next.
    ready();
    server::serve(listeners, app, server_options(settings), stop.clone()).await?;
    stop.cancel();
    tasks.close();
    // Sends in flight end within their own deadline; what is left is handed over by its lease.
    let waited = Duration::from_millis(settings.http.stop_timeout_ms);
    if tokio::time::timeout(waited, tasks.wait()).await.is_err() {
        tracing::warn!("workers did not end in time; their leases end by themselves");
    }
    Ok(())
}

async fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
    TcpListener::bind(address).await
}

/// Everything that is served, wrapped in what holds for every call.
pub fn app(settings: &Settings, ctx: &Ctx, role: Role, workers: Workers) -> BoxEndpoint<'static, Response> {
    let documents = [Document::V2, Document::Auth, Document::Webhooks].map(documents::text);
    let parsed: Vec<Value> = documents
        .iter()
        .filter_map(|text| serde_json::from_str(text).ok())
        .collect();
    let identity = Arc::new(Identity::new(ctx.clone()));
    let identify: Arc<dyn Identify> = identity.clone();
    let origins: Arc<dyn AllowedOrigins> = identity;
    let [platform, auth, webhooks] = documents;
    let mut routes = docs::routes(
        Route::new(),
        vec![
            ("Platform API v2", "/openapi/v2.json", platform),
            ("Auth API v1", "/openapi/auth.json", auth),
            ("Webhooks", "/openapi/webhooks.json", webhooks),
        ],
    );
    if role != Role::Worker {
        // Titles stand in the committed documents; these services only route.
        routes = routes
            .nest_no_strip("/v2", OpenApiService::new(Described(apis::platform()), "", ""))
            .nest_no_strip("/v1", OpenApiService::new(Described(apis::auth()), "", ""));
    }
    let health = Health::new(settings, ctx, role, workers);
    let ready = health.clone();
    let routes = routes
        .at(
            "/health/live",
            get(make_sync(|_| answer(true, &json!({ "status": "ok" })))),
        )
        .at("/health/ready", get(make(move |_| readiness(ready.clone()))))
        .at("/metrics", get(health::metrics_page(health)))
        .data(identify)
        .data(ctx.clone());
    let edge = Edge {
        limits: Limits {
            body_bytes_max: settings.http.body_bytes_max,
            body_deadline_ms: settings.http.body_timeout_ms,
            handler_deadline_ms: settings.http.answer_timeout_ms,
        },
        ids: ctx.ids.clone(),
        routes: RouteTable::from_documents(&parsed),
        origins,
        rates: RateLimits::new(&settings.rate_limits, settings.http.production, ctx.clock.clone()),
    };
    edge::wrap(routes, edge)
}

fn answer(is_good: bool, body: &Value) -> Response {
    Response::builder()
        .status(probed(is_good))
        .content_type("application/json")
        .body(body.to_string())
}

async fn readiness(health: Health) -> Response {
    let report = health.look().await;
    answer(report.is_ready, &report.body)
}

fn delivery_options(settings: &Settings) -> deliver_webhooks::Options {
    deliver_webhooks::Options {
        concurrency: settings.webhooks.concurrency.max(1),
        concurrency_per_endpoint: settings.webhooks.concurrency_per_endpoint.max(1),
    }
}

fn polls(settings: &Settings) -> watch_chains::Polls {
    settings
        .networks()
        .map(|(network, chain)| (network, Duration::from_millis(chain.poll_ms)))
        .collect()
}

fn server_options(settings: &Settings) -> server::ServerOptions {
    server::ServerOptions {
        connections_max: settings.http.connections_max,
        head_deadline_ms: settings.http.header_timeout_ms,
        drain_deadline_ms: settings.http.stop_timeout_ms,
    }
}
