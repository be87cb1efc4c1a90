//! Starts the service and stops it gracefully.

use crate::{
    adapters::clock::SystemClock,
    boot::{
        clock, context, dev_database,
        documents::{self, PublishedDocument},
        health::{self, Health, HealthReport},
        identity::Identity,
        open_database,
        process::Process,
        role::Role,
    },
    ctx::Ctx,
    http::{
        contract::{
            apis,
            described::DescribedDocument,
            docs::{self, PagePermissions},
        },
        dev,
        edge::{
            self, Edge,
            cors::AllowedOrigins,
            limits::Limits,
            observe,
            server::{self, Shutdown},
        },
        error::probed,
        gate::{address::Addresses, identify::Identify, rate_limits::RateLimits},
        hosted::{self, CachedFile, PageFrame},
        routes::RouteTable,
    },
    settings::Settings,
    store::{
        Db,
        presence::{ANNOUNCED_EVERY, InstancePresence, PresencePurpose},
    },
    worker::{self, deliver_webhooks, lead_chains, try_writes},
};
use anyhow::{Context, bail};
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
use tokio_util::task::TaskTracker;

/// Serves until the process is stopped.
///
/// Errors: `http.production` is true and `prs dev` created the database.
pub async fn run(settings: &Settings, role: Role) -> anyhow::Result<()> {
    let db = open_database(settings).await?;
    if settings.http.production && dev_database::is_of_dev(&db).await? {
        bail!(
            "database.url: `prs dev` created this database, and its wallet and password are public; use another one, \
             or set http.production to false"
        );
    }
    run_with(settings, context(settings, db)?, Process::new(role), || {}).await
}

/// Serves with handles that are already built. Calls `ready` once connections are accepted.
///
/// Errors: `http.production` is true and the process has developer operations.
pub async fn run_with(settings: &Settings, ctx: Ctx, mut process: Process, ready: impl FnOnce()) -> anyhow::Result<()> {
    let role = process.role;
    if settings.http.production && process.room.is_some() {
        bail!("http.production: must be false when `/_dev` is served");
    }
    let Some(presence) = InstancePresence::announce(&ctx.db, PresencePurpose::Serve).await? else {
        bail!(
            "another process is reverting the database schema; start this process again when the revert has finished"
        );
    };
    let tasks = TaskTracker::new();
    let listener = bind("http.listen", settings.http.listen).await?;
    let instance = instance_name(&ctx, &listener)?;
    let mut listeners = vec![listener];
    if let Some(listen) = settings.http.auth_listen {
        listeners.push(bind("http.auth_listen", listen).await?);
    }
    let operator = if settings.http.metrics_listen == settings.http.listen {
        None
    } else {
        Some(bind("http.metrics_listen", settings.http.metrics_listen).await?)
    };
    tell_start(settings, &ctx, role);
    // The recorder starts before the workers: metrics recorded before it are lost.
    health::install_recorder();
    if role != Role::Api {
        let (leaving, stop) = (&process.shutdown.leaving, &process.shutdown.stop);
        let chains = chain_options(settings, &process, &instance);
        process.workers = worker::start(&ctx, delivery_options(settings), chains, leaving, stop, &tasks);
    }
    let health = Health::new(settings, &ctx, &process);
    let app = app(settings, &ctx, &process);
    stop_on_signals(process.shutdown.clone(), Duration::from_millis(settings.http.drain_ms))?;
    let announcing = tokio::spawn(keep_announced(presence, ctx.db.clone()));
    tasks.spawn(clock::keep(ctx.db.clone(), SystemClock, process.shutdown.stop.clone()));
    let writes = process.workers.writes.clone();
    tasks.spawn(try_writes::run(ctx.clone(), writes, process.shutdown.stop.clone()));
    // The sockets already listen. Calls that arrive now wait until the loop below accepts them.
    ready();
    let options = server_options(settings);
    let served = server::serve(listeners, app, options.clone(), process.shutdown.clone());
    match operator {
        Some(listener) => {
            let pages = operator_pages(Route::new(), &health);
            let watched = server::serve(vec![listener], pages, options, process.shutdown.clone());
            tokio::try_join!(served, watched)?;
        }
        None => served.await?,
    }
    process.shutdown.leaving.cancel();
    process.shutdown.stop.cancel();
    tasks.close();
    // Deliveries in flight end within their own timeout. Other instances take over the remaining deliveries when their
    // leases expire.
    let waited = Duration::from_millis(settings.http.stop_timeout_ms);
    if tokio::time::timeout(waited, tasks.wait()).await.is_err() {
        tracing::warn!("workers did not stop in time; their leases will expire");
    }
    announcing.abort();
    tracing::info!("stopped");
    Ok(())
}

/// Logs the role and the main settings of this process. URLs of nodes and databases are not logged, because they
/// contain keys.
fn tell_start(settings: &Settings, ctx: &Ctx, role: Role) {
    let networks: Vec<&str> = ctx
        .partners
        .chains
        .followed
        .keys()
        .map(|network| network.id())
        .collect();
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        role = ?role,
        networks = networks.join(","),
        database = if ctx.db.is_postgres() { "postgres" } else { "sqlite" },
        production = settings.http.production,
        "starting"
    );
}

/// On SIGTERM the process reports that it is not ready, serves calls for the time `drain`, and then stops. On a second
/// signal, or Ctrl-C, it stops immediately.
fn stop_on_signals(shutdown: Shutdown, drain: Duration) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::spawn(async move {
        let is_patient = tokio::select! {
            _ = terminate.recv() => true,
            _ = interrupt.recv() => false,
        };
        shutdown.leaving.cancel();
        if is_patient && !drain.is_zero() {
            tracing::info!(
                drain_ms = drain.as_millis(),
                "this process reports that it is not ready, and still serves calls"
            );
            tokio::select! {
                () = tokio::time::sleep(drain) => {}
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        }
        tracing::info!("stopping");
        shutdown.stop.cancel();
    });
    Ok(())
}

/// Repeatedly renews the registration of this process in the database, which a restart of the database deletes.
async fn keep_announced(presence: InstancePresence, db: Db) {
    loop {
        tokio::time::sleep(ANNOUNCED_EVERY).await;
        match presence.renew().await {
            Ok(true) => {}
            Ok(false) => {
                tracing::warn!("another process is reverting the database schema while this process is serving")
            }
            Err(error) => {
                tracing::debug!(%error, "this process could not be registered in the database");
                if let Some(cause) = db.obstacle().await {
                    tracing::warn!(cause, "the database is unreachable");
                }
            }
        }
    }
}

/// Listens on the address of a setting. Errors: the setting, the address and the cause.
async fn bind(setting: &str, address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address)
        .await
        .with_context(|| format!("{setting}: the service cannot listen on {address}"))
}

/// All routes, wrapped in the rules for every call.
pub fn app(settings: &Settings, ctx: &Ctx, process: &Process) -> BoxEndpoint<'static, Response> {
    let documents = [
        PublishedDocument::V2,
        PublishedDocument::Auth,
        PublishedDocument::Webhooks,
    ]
    .map(documents::committed_text);
    let identity = Arc::new(Identity::new(ctx.clone()));
    let identify: Arc<dyn Identify> = identity.clone();
    let origins: Arc<dyn AllowedOrigins> = identity;
    let [platform, auth, webhooks] = documents;
    let room = process.room.as_ref().map(|_| dev::document());
    // The table has no routes of the webhook document, because that document describes calls to receivers.
    let table = RouteTable::from_documents([platform, auth].into_iter().chain(room.as_deref()));
    let mut routes = docs::routes(
        Route::new(),
        vec![
            ("Platform API v2", "/openapi/v2.json", platform),
            ("Auth API v1", "/openapi/auth.json", auth),
            ("Webhooks", "/openapi/webhooks.json", webhooks),
        ],
        PagePermissions {
            keeps_keys: !settings.http.production,
            has_room: process.room.is_some(),
        },
    );
    if process.role != Role::Worker {
        // These services only route calls, so they get no titles: the committed documents contain the titles.
        routes = routes
            .nest_no_strip("/v2", OpenApiService::new(DescribedDocument(apis::platform()), "", ""))
            .nest_no_strip("/v1", OpenApiService::new(DescribedDocument(apis::auth()), "", ""));
        routes = hosted::routes(routes, page(settings));
    }
    if let Some(room) = &process.room {
        routes = dev::routes(routes, room.clone());
    }
    let health = Health::new(settings, ctx, process);
    observe::begin(&table);
    let routes = if settings.http.metrics_listen == settings.http.listen {
        operator_pages(routes, &health)
    } else {
        health_pages(routes, &health, HealthReport::in_short)
    };
    let routes = routes.data(identify).data(ctx.clone());
    let edge = Edge {
        limits: Limits {
            body_bytes_max: settings.http.body_bytes_max,
            body_deadline_ms: settings.http.body_timeout_ms,
            handler_deadline_ms: settings.http.answer_timeout_ms,
        },
        ids: ctx.ids.clone(),
        routes: table,
        origins,
        addresses: Addresses::new(&settings.rate_limits),
        rates: RateLimits::new(
            &settings.rate_limits,
            settings.http.production,
            ctx.clock.clone(),
            ctx.waits.guess,
        ),
    };
    edge::wrap(routes, edge)
}

/// Data shared by all payment pages, from the validated settings.
fn page(settings: &Settings) -> PageFrame {
    let brand = &settings.brand;
    let pay_url = settings.pay_url();
    let nodes = settings.networks();
    PageFrame {
        address: format!("{}/pay", pay_url.strip_suffix("/pay").unwrap_or(&pay_url)),
        name: brand.name.clone(),
        language: brand.language,
        style: CachedFile::style(brand.brand().unwrap_or_default().as_ref()),
        logo: brand.picture().unwrap_or_default().map(CachedFile::logo),
        nodes: nodes
            .filter_map(|(network, chain)| Some((network, chain.wallet_rpc_url.clone()?)))
            .collect(),
        terms: brand.terms_url.clone(),
        privacy: brand.privacy_url.clone(),
    }
}

fn answer(is_good: bool, body: &Value) -> Response {
    Response::builder()
        .status(probed(is_good))
        .content_type("application/json")
        .body(body.to_string())
}

/// Health probes for load balancers.
fn health_pages(routes: Route, health: &Health, shown: fn(HealthReport) -> Value) -> Route {
    let health = health.clone();
    let readiness = move |_| {
        let health = health.clone();
        async move {
            let report = health.look().await;
            answer(report.is_ready, &shown(report))
        }
    };
    let live = make_sync(|_| answer(true, &json!({ "status": "ok" })));
    routes
        .at("/health/live", get(live))
        .at("/health/ready", get(make(readiness)))
}

/// Routes for the operator: the health probes with all details, and the metrics.
fn operator_pages(routes: Route, health: &Health) -> Route {
    health_pages(routes, health, |report| report.body).at("/metrics", get(health::metrics_page(health.clone())))
}

fn delivery_options(settings: &Settings) -> deliver_webhooks::DeliveryOptions {
    deliver_webhooks::DeliveryOptions {
        concurrency: settings.webhooks.concurrency.max(1),
        concurrency_per_endpoint: settings.webhooks.concurrency_per_endpoint.max(1),
    }
}

fn chain_options(settings: &Settings, process: &Process, instance: &str) -> lead_chains::LeadershipOptions {
    let polls = settings.networks();
    lead_chains::LeadershipOptions {
        instance: instance.to_owned(),
        lease: Duration::from_secs(settings.workers.chain_lease_s),
        polls: polls
            .map(|(network, chain)| (network, Duration::from_millis(chain.poll_ms)))
            .collect(),
        news: process.news.clone(),
    }
}

/// Name of this instance: host name and listen address. No other process on this machine has the same name, and the
/// name stays the same after a restart. If the host name is unknown, the name is random.
fn instance_name(ctx: &Ctx, listener: &TcpListener) -> std::io::Result<String> {
    let address = listener.local_addr()?;
    let machine = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_else(|_| ctx.ids.ulid());
    Ok(format!("{}/{address}", machine.trim()))
}

fn server_options(settings: &Settings) -> server::ServerOptions {
    server::ServerOptions {
        connections_max: settings.http.connections_max,
        connections_per_address_max: settings.http.connections_per_address_max,
        proxies: settings.rate_limits.trusted_networks().unwrap_or_default(),
        head_deadline_ms: settings.http.header_timeout_ms,
        write_deadline_ms: settings.http.write_timeout_ms,
        drain_deadline_ms: settings.http.stop_timeout_ms,
    }
}
