//! The health page and the gauges of the chains.

use crate::{
    boot::{counted, described, log, process::Process, role::Role},
    ctx::Ctx,
    domain::network::Network,
    flows::{
        payments::obstacles::{self, Obstacles},
        rates,
        webhooks::backlog,
    },
    http::{edge::observe, error::probed},
    settings::Settings,
    worker::chain_states::{ChainState, Failing, Look},
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

/// Final blocks that a chain may be behind before it counts as degraded.
const LAG_BLOCKS_MAX: u64 = 500;

/// How long the measured queue is believed: counting reads every delivery that failed.
const QUEUE_BELIEVED: Duration = Duration::from_secs(5);

/// Looks at what the service needs for its work.
#[derive(Clone)]
pub struct Health {
    ctx: Ctx,
    process: Process,
    stale_after: Duration,
    /// When the queue was measured last, on the steady clock; whoever measures it holds it.
    measured: Arc<Mutex<Option<Duration>>>,
}

/// What the health page shows.
#[derive(Debug, Clone)]
pub struct Report {
    /// Whether the service can do its work.
    pub is_ready: bool,
    /// The page.
    pub body: Value,
}

impl Report {
    /// What strangers may see.
    pub fn in_short(self) -> Value {
        json!({ "status": self.body["status"] })
    }
}

/// How a chain is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Condition {
    /// Nothing is wrong with it.
    Good,
    /// The operator has something to do, or nobody knows whether.
    Waiting,
    /// It is not followed as it should be.
    Degraded,
}

impl Health {
    /// Of a process, whose counters are there from now on.
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

    /// Whether the database answers and takes writes, its schema is as new as this program, and every chain is followed.
    /// What only the operator can change, and for the API everything about the chains, leaves the service ready and is
    /// shown as degraded. A process that was told to stop is not ready.
    pub async fn look(&self) -> Report {
        let schema = tokio::time::timeout(self.ctx.waits.health, self.ctx.db.is_schema_complete()).await;
        let (is_database_up, is_schema_complete) = match schema {
            Ok(Ok(is_complete)) => (true, is_complete),
            _ => (false, false),
        };
        let obstacles = match is_schema_complete {
            true => self.obstacles().await,
            false => None,
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
            (true, false, _) => "schema older than this program: prs migrate up",
            (true, true, false) => "takes no writes: look at what database.url leads to",
            (true, true, true) => "ok",
        };
        let last_write = writes
            .last_ok()
            .map(|time| time.to_rfc3339_opts(SecondsFormat::Millis, true));
        Report {
            is_ready,
            body: json!({ "status": status, "database": database, "lastWriteAt": last_write, "chains": chains }),
        }
    }

    async fn obstacles(&self) -> Option<Obstacles> {
        let found = tokio::time::timeout(self.ctx.waits.health, obstacles::run(&self.ctx)).await;
        found.ok()?.ok()
    }

    /// Whether no look had a good answer for too long.
    fn is_stale(&self, state: &ChainState) -> bool {
        state.missing_for(self.ctx.clock.steady()) > self.stale_after
    }

    /// Whether all nodes stand still, by the time of their newest block.
    fn stands_still(&self, state: &ChainState) -> bool {
        state.head_age() > self.stale_after
    }

    /// When a good answer was had last: a newest block that is too old was one until then.
    fn last_ok(&self, state: &ChainState) -> Option<DateTime<Utc>> {
        let too_old_by = state.head_age().saturating_sub(self.stale_after);
        state.last_ok.map(|last_ok| last_ok - too_old_by)
    }

    fn is_degraded(&self, state: &ChainState) -> bool {
        let is_behind =
            matches!(&state.look, Look::Followed(at) if at.finalized.saturating_sub(at.confirmed) > LAG_BLOCKS_MAX);
        is_behind || self.is_stale(state) || self.stands_still(state)
    }

    /// How a chain is, and what the page shows of it. What waits for the operator is unknown without `obstacles`.
    fn chain(&self, network: Network, state: Option<&ChainState>, obstacles: Option<&Obstacles>) -> (Condition, Value) {
        let halted = obstacles.and_then(|obstacles| obstacles.halted.get(&network));
        let quarantined = obstacles.map(|obstacles| obstacles.quarantined.get(&network).copied().unwrap_or(0));
        let mut shown = match (halted, state.map(|state| &state.look)) {
            (Some(reason), _) => json!({ "state": "halted", "reason": reason }),
            (None, Some(Look::Followed(at))) => json!({
                "state": "following", "head": at.head.number, "finalized": at.finalized, "seen": at.seen,
                "confirmed": at.confirmed, "lagBlocks": at.finalized.saturating_sub(at.confirmed),
            }),
            // The operator had it resumed.
            (None, Some(Look::Halted(_))) if obstacles.is_some() => json!({ "state": "beginning" }),
            (None, Some(Look::Halted(reason))) => json!({ "state": "halted", "reason": reason }),
            (None, Some(Look::Failed(_))) => json!({ "state": "failing" }),
            (None, Some(Look::Standby)) => json!({ "state": "standby" }),
            (None, Some(Look::None)) => json!({ "state": "beginning" }),
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
                "compare the nodes of chains.{network}.rpc_urls, then: prs admin chain resume {network}"
            ));
        }
        if quarantined.is_some_and(|count| count > 0) {
            next.push(format!("prs admin quarantine list --network {network}"));
        }
        match state {
            Some(state) if self.is_stale(state) => next.push(what_is_missing(network, &state.look)),
            Some(state) if self.stands_still(state) => next.push(format!(
                "the newest block is {} s old: look at chains.{network}.rpc_urls and at the clock of this machine",
                state.head_age().as_secs()
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

    /// What waits to be delivered, and what was given up. A database that does not answer leaves the numbers as they were.
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

    /// Measures which pairs have a rate now: one that nobody reads any more runs out by time alone.
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

    /// Brings the gauges up to date; each of them is there for every enabled network from the start.
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
        reason = "gauges are floats; seconds and counts stay far below 2^52"
    )]
    gauge.set(value as f64);
}

/// What to look at when a chain had no good answer for too long.
fn what_is_missing(network: Network, look: &Look) -> String {
    let nodes = format!("chains.{network}.rpc_urls");
    match look {
        Look::Failed(Failing::Database) => "the database does not answer: look at database.url and its disk".to_owned(),
        Look::Failed(Failing::Other) => "the last look failed: look at the log".to_owned(),
        Look::Followed(at) if !at.is_current => {
            format!("too few nodes move with the chain: look at the log and at {nodes}")
        }
        _ => format!("no good answer of enough nodes: look at the log and at {nodes}"),
    }
}

fn set(name: &'static str, network: Network, value: u64) {
    #[expect(
        clippy::cast_precision_loss,
        reason = "gauges are floats; seconds and counts stay far below 2^52"
    )]
    metrics::gauge!(name, "network" => network.id()).set(value as f64);
}

/// Begins to record what is measured. The recorder belongs to the process: a second service in it shows the same numbers.
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

/// Everything that is measured, in the text form of Prometheus.
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
