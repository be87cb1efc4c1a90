//! Measures whether a greedy tenant slows down a modest tenant: `cargo xtask test abuse`.
//!
//! Each shared resource is measured on a separate service on PostgreSQL. The two clients are separate processes, pinned
//! to different cores, and work at a fixed rate. The modest client works alone and then in parallel with the greedy
//! client, three times alternately. The quotas of credentials are so high that the service refuses no call for them:
//! the test measures only how the shared resources are divided.

mod client;
mod stage;
mod things;

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::ValueEnum;

use crate::report::{self, Goal, Machine, REPEATS, Row, in_ms, percentile};
pub(crate) use client::run as run_client;
use stage::Stage;
use things::{Manners, Plan, Thing};

/// Maximum slowdown of the modest client: the 99th percentile of its calls in parallel with the greedy client, divided
/// by the 99th percentile of its calls alone.
const GOAL_RATIO: f64 = 1.5;

/// Duration of each measurement, alone or in parallel with the greedy client, in seconds.
const PHASE_S: f64 = 10.0;

/// How long the greedy client works before the modest client starts.
const HEAD_START: Duration = Duration::from_secs(2);

/// Measures every resource, prints the table, and returns whether every goal was met.
pub(crate) fn run(scale: f64) -> anyhow::Result<bool> {
    let before = Machine::look();
    let mut rows = Vec::new();
    for thing in Thing::value_variants() {
        eprintln!("measuring {} …", thing.name());
        rows.push(measure(*thing, PHASE_S * scale).with_context(|| thing.name())?);
    }
    report::print(&rows, &before, &Machine::look(), scale);
    let is_met = |row: &Row| report::median(&row.ours) <= GOAL_RATIO * report::median(&row.baseline);
    Ok(rows.iter().all(is_met))
}

fn measure(thing: Thing, seconds: f64) -> anyhow::Result<Row> {
    let stage = Stage::set(thing)?;
    let modest = stage.plan(Manners::Modest, seconds);
    let greedy = stage.plan(Manners::Greedy, seconds + HEAD_START.as_secs_f64());
    // The first calls of a process are slower than all others.
    work(&Plan {
        seconds: seconds / 4.0,
        ..modest.clone()
    })?;
    let (mut alone, mut beside) = (Vec::new(), Vec::new());
    for _ in 0..REPEATS {
        alone.push(work(&modest)?);
        let greedy = Busy(spawn(&greedy)?);
        std::thread::sleep(HEAD_START);
        beside.push(work(&modest)?);
        drop(greedy);
        std::thread::sleep(thing.settle());
    }
    stage.strike()?;
    Ok(Row {
        name: thing.name(),
        unit: "ms",
        ours: beside,
        baseline_name: "alone",
        baseline: alone,
        goal: Goal::RatioAtMost(GOAL_RATIO),
    })
}

/// Runs the modest client; returns the 99th percentile of its calls in milliseconds.
fn work(plan: &Plan) -> anyhow::Result<f64> {
    let output = spawn(plan)?.wait_with_output()?;
    ensure!(output.status.success(), "the modest client failed: {}", output.status);
    let micros: Vec<u64> = serde_json::from_slice(&output.stdout).context("the times of the modest client")?;
    let times: Vec<Duration> = micros.into_iter().map(Duration::from_micros).collect();
    Ok(in_ms(percentile(&times, 99)))
}

/// Starts a client on the core of its role.
fn spawn(plan: &Plan) -> anyhow::Result<Child> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let core = match plan.manners {
        Manners::Modest => 0,
        Manners::Greedy => cores - 1,
    };
    let mut command = Command::new("taskset");
    command.args(["-c", &core.to_string()]).arg(std::env::current_exe()?);
    command.args(["--abuse-client", &serde_json::to_string(plan)?]);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    command.spawn().context("`taskset` of util-linux pins the clients")
}

/// The process of the greedy client, which is stopped on drop.
struct Busy(Child);

impl Drop for Busy {
    fn drop(&mut self) {
        // `kill` and `wait` fail only if the process has already ended, which is the intended result.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
