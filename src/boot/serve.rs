//! Starts the service and stops it gracefully.

use super::{cli::Role, context, documents, identity::Identity, open_database};
use crate::{
    ctx::Ctx,
    http::{self, server},
    settings::Settings,
    worker::{self, deliver_webhooks, watch_chains},
};
use anyhow::Context;
use poem::{
    Endpoint, EndpointExt, Route,
    listener::TcpAcceptor,
};
use std::{sync::Arc, time::Duration};
use tokio::{net::TcpListener, signal};
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
    let workers = if role == Role::Api {
        worker::Workers::default()
    } else {
        worker::start(&ctx, delivery_options(settings), polls(settings), &stop, &tasks)
    };
    let app = Arc::new(app(settings, &ctx, role, workers));
    let mut listeners = vec![bind(settings.http.listen).await.context("http.listen")?];
    if let Some(listen) = settings.http.auth_listen {
        listeners.push(bind(listen).await.context("http.auth_listen")?);
    }
    tracing::info!(listen = %settings.http.listen, role = ?role, "ready");
    ready();
    let asked = stop.clone();
    tokio::spawn(async move {
        asked_to_stop().await;
        tracing::info!("stopping");
        asked.cancel();
    });
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
