//! The health page and the gauges of the chains.

use crate::{
    boot::{counted, described, log, process::Process, role::Role},
    ctx::Ctx,
    domain::network::Network,
    flows::{
        payments::obstacles::{self, OpenObstacles},
        rates,
        webhooks::backlog,
    },
    http::{edge::observe, error::probed},
    settings::Settings,
    worker::chain_states::{ChainOutcome, ChainState, PollFailure},
};
use chrono::{DateTime, SecondsFormat, Utc};
use metrics_exporter_prometheus::PrometheusHandle;
use poem::{Endpoint, Response, endpoint::make};
use serde_json::{Map, Value, json};
use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};
use tokio::sync::Mutex;

/// Number of final blocks that may be unread before a chain counts as degraded.
const LAG_BLOCKS_MAX: u64 = 500;

/// How long the measured queue size is reused: counting reads every failed delivery.
const QUEUE_BELIEVED: Duration = Duration::from_secs(5);

/// Checks the dependencies of the service.
#[derive(Clone)]
pub struct Health {
    ctx: Ctx,
    process: Process,
    stale_after: Duration,
    /// Time of the last queue measurement, on the monotonic clock; locked during a measurement.
    measured: Arc<Mutex<Option<Duration>>>,
}

/// Content of the health page.
#[derive(Debug, Clone)]
pub struct HealthReport {
    /// Whether the service is ready.
    pub is_ready: bool,
    /// The page.
    pub body: Value,
}

impl HealthReport {
    /// The part that is public.
    pub fn in_short(self) -> Value {
        json!({ "status": self.body["status"] })
    }
}

/// Condition of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Condition {
    /// Healthy.
    Good,
    /// The operator has to act, or the service could not find out whether the operator has to act.
    Waiting,
    /// The service does not follow the chain correctly.
    Degraded,
}

impl Health {
    /// Creates the health checks of a process and initialises its counters.
    pub fn new(settings: &Settings, ctx: &Ctx, process: &Process) -> Self {
        install_recorder();
        counted::begin(settings, ctx);
        Self {
            ctx: ctx.clone(),
            process: process.clone(),
            stale_after: Duration::from_secs(settings.health.chain_stale_s),
            measured: Arc::default(),
        }
    }

    /// Checks that the database responds and accepts writes, that its schema is as new as this program, and that every
    /// chain is followed. A problem that only the operator can solve is shown as degraded, and the service stays ready.
    /// Other problems with a chain make only a process with the role `worker` not ready; a process that serves the API
    /// stays ready. A stopping process is not ready.
    pub async fn look(&self) -> HealthReport {
        let schema = tokio::time::timeout(self.ctx.waits.health, self.ctx.db.is_schema_complete()).await;
        let (is_database_up, is_schema_complete) = match schema {
            Ok(Ok(is_complete)) => (true, is_complete),
            _ => (false, false),
        };
        let obstacles = if is_schema_complete {
            self.obstacles().await
        } else {
            None
        };
        let mut conditions = Vec::new();
        let mut chains = Map::new();
        let states = self.process.workers.chains.all();
        for network in self.ctx.partners.chains.followed.keys().copied() {
            let (condition, shown) = self.chain(network, states.get(&network), obstacles.as_ref());
            conditions.push(condition);
            chains.insert(network.id().to_owned(), shown);
        }
        let writes = &self.process.workers.writes;
        let is_written = writes.are_taken(self.ctx.clock.steady());
        let is_held_up = self.process.role == Role::Worker && conditions.contains(&Condition::Degraded);
        let is_leaving = self.process.shutdown.leaving.is_cancelled();
        let is_ready = is_schema_complete && is_written && !is_held_up && !is_leaving;
        let is_good = obstacles.is_some() && conditions.iter().all(|condition| *condition == Condition::Good);
        let status = match (is_leaving, is_ready, is_good) {
            (true, ..) => "stopping",
            (_, false, _) => "not ready",
            (_, true, true) => "ready",
            (_, true, false) => "degraded",
        };
        let database = match (is_database_up, is_schema_complete, is_written) {
            (false, ..) => "unavailable",
            (true, false, _) => "the schema is older than this program; run: prs migrate up",
            (true, true, false) => "the database accepts no writes: check the server that database.url points to",
            (true, true, true) => "ok",
        };
        let last_write = writes
            .last_ok()
            .map(|time| time.to_rfc3339_opts(SecondsFormat::Millis, true));
        HealthReport {
            is_ready,
            body: json!({ "status": status, "database": database, "lastWriteAt": last_write, "chains": chains }),
        }
    }

    async fn obstacles(&self) -> Option<OpenObstacles> {
        let found = tokio::time::timeout(self.ctx.waits.health, obstacles::run(&self.ctx)).await;
        found.ok()?.ok()
    }

    /// Whether the last valid response is older than `health.chain_stale_s`.
    fn is_stale(&self, state: &ChainState) -> bool {
        state.missing_for(self.ctx.clock.steady()) > self.stale_after
    }

    /// Whether the newest block is older than `health.chain_stale_s`, so that no node advances.
    fn stands_still(&self, state: &ChainState) -> bool {
        state.head_age() > self.stale_after
    }

    /// Time of the last valid response. A response is not valid if its newest block is older than
    /// `health.chain_stale_s`.
    fn last_ok(&self, state: &ChainState) -> Option<DateTime<Utc>> {
        let too_old_by = state.head_age().saturating_sub(self.stale_after);
        state.last_ok.map(|last_ok| last_ok - too_old_by)
    }

    fn is_degraded(&self, state: &ChainState) -> bool {
        let is_behind = matches!(
            &state.look,
            ChainOutcome::Followed(at) if at.finalized.saturating_sub(at.confirmed) > LAG_BLOCKS_MAX
        );
        is_behind || self.is_stale(state) || self.stands_still(state)
    }

    /// Condition of a chain, and its part of the health page. If `obstacles` is `None`, it is unknown whether the
    /// operator has to act.
    fn chain(
        &self,
        network: Network,
        state: Option<&ChainState>,
        obstacles: Option<&OpenObstacles>,
    ) -> (Condition, Value) {
        let halted = obstacles.and_then(|obstacles| obstacles.halted.get(&network));
        let quarantined = obstacles.map(|obstacles| obstacles.quarantined.get(&network).copied().unwrap_or(0));
        let mut shown = match (halted, state.map(|state| &state.look)) {
            (Some(reason), _) => json!({ "state": "halted", "reason": reason }),
            (None, Some(ChainOutcome::Followed(at))) => json!({
                "state": "following", "head": at.head.number, "finalized": at.finalized, "seen": at.seen,
                "confirmed": at.confirmed, "lagBlocks": at.finalized.saturating_sub(at.confirmed),
            }),
            // The operator has resumed the chain.
            (None, Some(ChainOutcome::Halted(_))) if obstacles.is_some() => json!({ "state": "beginning" }),
            (None, Some(ChainOutcome::Halted(reason))) => json!({ "state": "halted", "reason": reason }),
            (None, Some(ChainOutcome::Failed(_))) => json!({ "state": "failing" }),
            (None, Some(ChainOutcome::Standby)) => json!({ "state": "standby" }),
            (None, Some(ChainOutcome::None)) => json!({ "state": "beginning" }),
            (None, None) => json!({ "state": "not followed by this process" }),
        };
        shown["quarantined"] = json!(quarantined);
        if let Some(state) = state {
            if let Some(term) = state.term {
                shown["term"] = json!(term);
            }
            let last_ok = self.last_ok(state);
            shown["lastOkAt"] = json!(last_ok.map(|time| time.to_rfc3339_opts(SecondsFormat::Millis, true)));
        }
        let is_degraded = state.is_some_and(|state| self.is_degraded(state));
        let mut next = Vec::new();
        if shown["state"] == "halted" {
            next.push(format!(
                "check the nodes of {}, then run: prs admin chain resume {network}",
                network.node_setting()
            ));
        }
        if quarantined.is_some_and(|count| count > 0) {
            next.push(format!("prs admin quarantine list --network {network}"));
        }
        match state {
            Some(state) if self.is_stale(state) => next.push(what_is_missing(network, &state.look)),
            Some(state) if self.stands_still(state) => next.push(format!(
                "the newest block is {} s old: check {} and the clock of this machine",
                state.head_age().as_secs(),
                network.node_setting()
            )),
            Some(state) if state.is_without_finality(network) => next.push(format!(
                "no further block became final while the chain grew by {} s, so payments wait: check {} and the reports \
                 of the network",
                state.final_pause().num_seconds(),
                network.node_setting()
            )),
            _ => {}
        }
        let is_good = next.is_empty() && obstacles.is_some();
        let condition = match (is_degraded, is_good) {
            (true, _) => Condition::Degraded,
            (false, false) => Condition::Waiting,
            (false, true) => Condition::Good,
        };
        if !next.is_empty() {
            shown["next"] = json!(next);
        }
        (condition, shown)
    }

    /// Measures pending and failed deliveries. If the database does not respond, the gauges keep their values.
    async fn gauge_queue(&self) {
        let mut measured = self.measured.lock().await;
        let now = self.ctx.clock.steady();
        if measured.is_some_and(|at| now.saturating_sub(at) < QUEUE_BELIEVED) {
            return;
        }
        let look = tokio::time::timeout(self.ctx.waits.health, backlog::run(&self.ctx));
        let Ok(Ok(queue)) = look.await else { return };
        *measured = Some(now);
        for (state, count) in [
            ("queued", queue.queued),
            ("recovering", queue.recovering),
            ("exhausted", queue.exhausted),
        ] {
            set_queue("prs_webhook_deliveries", Some(state), count);
        }
        set_queue("prs_webhook_oldest_due_seconds", None, queue.oldest_due_s);
    }

    /// Measures which pairs currently have a rate. A rate expires with time when the feeds return no newer reading.
    async fn gauge_rates(&self) {
        if self.ctx.partners.rate_feeds.is_empty() {
            return;
        }
        let look = tokio::time::timeout(self.ctx.waits.health, rates::list::run(&self.ctx));
        let Ok(Ok(listed)) = look.await else { return };
        for one in listed {
            let usable = f64::from(u8::from(one.now.is_ok()));
            metrics::gauge!("prs_rate_usable", "pair" => one.pair.to_string()).set(usable);
        }
    }

    /// Updates the gauges; each gauge exists for every enabled network from the start.
    async fn gauge(&self) {
        metrics::counter!("prs_log_lines_dropped_total").absolute(log::dropped_lines());
        self.gauge_queue().await;
        self.gauge_rates().await;
        let states = self.process.workers.chains.all();
        let obstacles = self.obstacles().await;
        for network in self.ctx.partners.chains.followed.keys().copied() {
            let state = states.get(&network);
            let (condition, _) = self.chain(network, state, obstacles.as_ref());
            set("prs_chain_degraded", network, u64::from(condition != Condition::Good));
            let leads = state.is_some_and(|state| state.term.is_some());
            set("prs_chain_leader", network, u64::from(leads));
            let last_ok = state.and_then(|state| self.last_ok(state));
            let last_ok_s = last_ok.map_or(0, |time| u64::try_from(time.timestamp()).unwrap_or(0));
            set("prs_chain_last_ok_timestamp_seconds", network, last_ok_s);
            if let Some(obstacles) = &obstacles {
                set(
                    "prs_chain_halted",
                    network,
                    u64::from(obstacles.halted.contains_key(&network)),
                );
                let quarantined = obstacles.quarantined.get(&network).copied().unwrap_or(0);
                set("prs_chain_quarantined", network, quarantined);
            }
        }
    }
}

fn set_queue(name: &'static str, state: Option<&'static str>, value: u64) {
    let gauge = match state {
        Some(state) => metrics::gauge!(name, "state" => state),
        None => metrics::gauge!(name),
    };
    #[expect(
        clippy::cast_precision_loss,
        reason = "a gauge is an f64, which is exact for whole numbers below 2^52; these seconds and counts are smaller"
    )]
    gauge.set(value as f64);
}

/// Advice for the operator when a chain had no valid response for too long.
fn what_is_missing(network: Network, look: &ChainOutcome) -> String {
    let nodes = network.node_setting();
    match look {
        ChainOutcome::Failed(PollFailure::Database) => {
            "the database does not respond: check database.url and the disk of the database".to_owned()
        }
        ChainOutcome::Failed(PollFailure::Other) => "the last poll failed: check the log".to_owned(),
        ChainOutcome::Followed(at) if !at.is_current => {
            format!("the newest blocks of too few nodes advance: check the log and {nodes}")
        }
        _ => format!("too few nodes return valid responses: check the log and {nodes}"),
    }
}

fn set(name: &'static str, network: Network, value: u64) {
    #[expect(
        clippy::cast_precision_loss,
        reason = "a gauge is an f64, which is exact for whole numbers below 2^52; these seconds and counts are smaller"
    )]
    metrics::gauge!(name, "network" => network.id()).set(value as f64);
}

/// Starts recording metrics. The recorder belongs to the process: a second service in the process shows the same
/// numbers.
pub(super) fn install_recorder() -> Option<PrometheusHandle> {
    static RECORDER: OnceLock<Option<PrometheusHandle>> = OnceLock::new();
    RECORDER
        .get_or_init(|| {
            let handle = observe::install_metrics().ok()?;
            described::begin();
            Some(handle)
        })
        .clone()
}

/// All metrics in the Prometheus text format.
pub(super) fn metrics_page(health: Health) -> impl Endpoint<Output = Response> {
    let handle = install_recorder();
    make(move |_| {
        let (health, handle) = (health.clone(), handle.clone());
        async move {
            let Some(handle) = handle else {
                return probed(false).into();
            };
            health.gauge().await;
            handle.run_upkeep();
            Response::builder()
                .content_type("text/plain; version=0.0.4; charset=utf-8")
                .body(handle.render())
        }
    })
}
