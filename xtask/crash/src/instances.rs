//! Several instances on one database. In one fault, the leader of a network dies or is paused. In another fault, the
//! instances are replaced one after another while clients keep calling.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use fastrand::Rng;
use serde_json::json;
use xtask::service::client::{Call, Client};

use crate::fault::{Database, Fault};
use crate::kills::median;
use crate::load::payee;
use crate::plan::{Plan, QUIET_TIME};
use crate::report::Row;
use crate::service::Service;
use crate::stage::{Stage, wait_for};
use crate::verdict::Verdict;

/// How soon another instance must follow the network after the leader failed. Source: ADR-0015.
const TAKEN_OVER_MAX: Duration = Duration::from_secs(10);

/// How long a leader is left alone before it is killed or paused, in milliseconds.
const TERM_MS: std::ops::RangeInclusive<u64> = 500..=2_500;

/// Pause of each writer between two requests.
const PACE: Duration = Duration::from_millis(200);

/// Time from SIGTERM until the instance stops serving, in milliseconds: the load balancer checks readiness several
/// times meanwhile.
const DRAIN_MS: u64 = 1_500;

/// Interval of the load balancer's readiness checks.
const READY_POLL: Duration = Duration::from_millis(100);

/// Number of callers. They share [`CALLS_PER_S`] equally.
const CALLERS: u32 = 8;

/// Calls per second of all callers together.
const CALLS_PER_S: u32 = 200;

/// One call in this number creates a request. All others read.
const CREATE_EVERY: usize = 8;

/// How long an instance may take to exit.
const END_TIMEOUT: Duration = Duration::from_secs(20);

/// How long both instances serve between two replacements.
const SETTLED: Duration = Duration::from_secs(1);

/// The leader of the network is repeatedly killed, or paused with SIGSTOP, in the middle of its work.
pub(crate) fn leaders(plan: &Plan) -> Result<Row> {
    let mut stage = Stage::open_api(plan, Fault::LeaderKills, &[])?;
    stage.pace = PACE;
    stage.register("late")?;
    let mut workers = [stage.worker("one")?, stage.worker("two")?];
    for worker in &mut workers {
        worker.start()?;
    }
    let rounds = plan.leader_kills + plan.leader_stops;
    let (taken, mut records) = stage.under_load(|_, pressure| {
        let mut rng = Rng::with_seed(plan.seed);
        let mut taken = Vec::new();
        for round in 0..rounds {
            let leader = wait_for("a leader", || Ok(workers.iter().position(leads)))?;
            pressure.pause(Duration::from_millis(rng.u64(TERM_MS)))?;
            // A paused process keeps its transactions and connections. Later it continues without noticing the pause.
            let is_stopped = round >= plan.leader_kills;
            if is_stopped {
                workers[leader].signal("STOP")?
            } else {
                workers[leader].kill()?
            }
            let gone = Instant::now();
            let other = &workers[1 - leader];
            wait_for("another leader", || Ok(leads(other).then_some(())))?;
            taken.push(gone.elapsed());
            if is_stopped {
                workers[leader].signal("CONT")?
            } else {
                workers[leader].start()?;
            }
            pressure.next_round();
        }
        Ok(taken)
    })?;
    let verdict = stage.settle(&mut records, "late", QUIET_TIME)?;
    let mut row = Row::of(Fault::LeaderKills, Database::Postgres, rounds, &verdict);
    let longest = taken.iter().max().copied().unwrap_or_default();
    row.check(longest <= TAKEN_OVER_MAX, || {
        format!("no instance followed the network for {:.1} s", longest.as_secs_f64())
    });
    row.note(&format!(
        "{} leaders killed, {} stopped and continued; takeover after {:.1} s, at most {:.1} s",
        plan.leader_kills,
        plan.leader_stops,
        median(&taken).as_secs_f64(),
        longest.as_secs_f64()
    ));
    Ok(row)
}

/// Whether an instance follows the network as its leader.
pub(crate) fn leads(worker: &Service) -> bool {
    let health = Client::new(worker.base_url(), Vec::new());
    let page = health.call_within(Duration::from_secs(1), "/health/ready", &Call::Get);
    page.is_ok_and(|page| {
        let chain = &page.body["chains"]["sepolia"];
        chain["state"] == "following" && chain["term"].is_u64()
    })
}

/// Counts of the calls during the replacement of instances.
#[derive(Default)]
struct Seen {
    calls: AtomicUsize,
    created: AtomicUsize,
    failures: Mutex<Vec<String>>,
}

/// Two instances run behind a load balancer that checks their readiness, and are replaced one after another.
pub(crate) fn rolling(plan: &Plan) -> Result<Row> {
    let mut stage = Stage::open(plan, Fault::RollingRestarts, Database::Postgres)?;
    let mut twin = stage.instance("twin", "all")?;
    stage
        .machines
        .service
        .set_variable("PRS_HTTP__DRAIN_MS", DRAIN_MS.to_string());
    twin.set_variable("PRS_HTTP__DRAIN_MS", DRAIN_MS.to_string());
    // The first instance was started without the pause between SIGTERM and the end of serving.
    stage.machines.service.kill()?;
    stage.machines.service.start()?;
    twin.start()?;
    let urls = [stage.machines.service.base_url().to_owned(), twin.base_url().to_owned()];
    let ready = [AtomicBool::new(true), AtomicBool::new(true)];
    let (seen, is_over) = (Seen::default(), AtomicBool::new(false));
    let caller = &stage.client;
    let machines = &mut stage.machines;
    let replaced = thread::scope(|scope| {
        for (url, is_ready) in urls.iter().zip(&ready) {
            let is_over = &is_over;
            scope.spawn(move || balance(url, is_ready, is_over));
        }
        for number in 0..CALLERS {
            let clients = [caller.at(&urls[0]), caller.at(&urls[1])];
            let (ready, seen, is_over) = (&ready, &seen, &is_over);
            scope.spawn(move || keep_calling(number, &clients, ready, seen, is_over));
        }
        let replaced = replace(plan.rolling_restarts, [&mut machines.service, &mut twin]);
        is_over.store(true, Ordering::SeqCst);
        replaced
    })?;
    let created = seen.created.load(Ordering::SeqCst);
    let page = stage.get(&format!("/v2/request?walletAddress={}&limit=1", payee(0)))?;
    let listed = page.pointer("/pagination/total").and_then(serde_json::Value::as_u64);
    let listed = usize::try_from(listed.context("no total")?)?;
    let mut row = Row::of(
        Fault::RollingRestarts,
        Database::Postgres,
        replaced,
        &Verdict::default(),
    );
    row.acknowledged = created;
    row.lost = created.saturating_sub(listed);
    row.doubled = listed.saturating_sub(created);
    let calls = seen.calls.load(Ordering::SeqCst);
    let failures = seen.failures.into_inner().unwrap_or_else(PoisonError::into_inner);
    row.check(failures.is_empty(), || {
        format!("{} of {calls} calls failed, the first: {}", failures.len(), failures[0])
    });
    "no deliveries".clone_into(&mut row.note);
    row.note(&format!(
        "{calls} calls at {CALLS_PER_S} a second without a retry, {} failed",
        failures.len()
    ));
    Ok(row)
}

/// Replaces the instances one after another, each after the previous replacement is ready; returns the number of
/// replacements.
fn replace(rounds: u64, mut instances: [&mut Service; 2]) -> Result<u64> {
    thread::sleep(SETTLED);
    for _ in 0..rounds {
        for instance in &mut instances {
            instance.signal("TERM")?;
            if !instance.ended_within(END_TIMEOUT)? {
                bail!("an instance did not exit within {} s of SIGTERM", END_TIMEOUT.as_secs());
            }
            instance.start()?;
            thread::sleep(SETTLED);
        }
    }
    Ok(rounds * 2)
}

/// Repeatedly checks whether an instance is ready.
fn balance(url: &str, is_ready: &AtomicBool, is_over: &AtomicBool) {
    let prober = Client::new(url, Vec::new());
    while !is_over.load(Ordering::SeqCst) {
        let answer = prober.call("/health/ready", &Call::Get);
        is_ready.store(answer.is_ok_and(|answer| answer.status == 200), Ordering::SeqCst);
        thread::sleep(READY_POLL);
    }
}

/// Calls the ready instances in rotation, at this caller's share of the rate. A failed call is not repeated.
fn keep_calling(number: u32, clients: &[Client; 2], ready: &[AtomicBool; 2], seen: &Seen, is_over: &AtomicBool) {
    let pause = Duration::from_secs(1) * CALLERS / CALLS_PER_S;
    let body =
        json!({"payee": payee(0), "amount": "1", "invoiceCurrency": "FAU-sepolia", "paymentCurrency": "FAU-sepolia"});
    let path = format!("/v2/request?walletAddress={}&limit=1", payee(1));
    let mut next = Instant::now() + pause * number / CALLERS;
    for turn in 0_usize.. {
        thread::sleep(next.saturating_duration_since(Instant::now()));
        next += pause;
        if is_over.load(Ordering::SeqCst) {
            return;
        }
        let wanted = turn % clients.len();
        let chosen = [wanted, 1 - wanted]
            .into_iter()
            .find(|one| ready[*one].load(Ordering::SeqCst));
        let creates = turn.is_multiple_of(CREATE_EVERY);
        let outcome = match (chosen, creates) {
            (None, _) => Err("no instance was ready".to_owned()),
            (Some(chosen), true) => answered(&clients[chosen], "/v2/request", &Call::Post(&body), 201),
            (Some(chosen), false) => answered(&clients[chosen], &path, &Call::Get, 200),
        };
        seen.calls.fetch_add(1, Ordering::SeqCst);
        match outcome {
            Ok(()) => drop(seen.created.fetch_add(usize::from(creates), Ordering::SeqCst)),
            Err(failure) => seen
                .failures
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(failure),
        }
    }
}

fn answered(client: &Client, path: &str, call: &Call<'_>, status: u16) -> Result<(), String> {
    let answer = client.call(path, call).and_then(|answer| answer.expect(status));
    answer.map(drop).map_err(|error| format!("{error:#}"))
}
