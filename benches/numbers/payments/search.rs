//! Measures searches: their rate over HTTP compared with `pgbench` and with a service in Node.js, and what each costs
//! the database.

use anyhow::Context;
use serde_json::Value;

use super::recorded::{self, Statement};
use super::{Filled, Sample, mixed, peer, psql};
use crate::load;
use crate::report::{Goal, REPEATS, Row, in_ms, median, percentile, rate_per_s, scaled};

/// Number of searches in one run.
const SEARCHES: usize = 40_000;

/// Number of timed searches of each kind, one after another.
const TIMED: usize = 2_000;

/// Goal for the service's rate, as a fraction of the rate of `pgbench`.
const PGBENCH_RATIO: f64 = 0.7;

/// Goal for the service's rate, as a multiple of the rate of a service in Node.js.
const PEER_RATIO: f64 = 1.4;

/// Maximum number of database pages that a search by a unique value may touch.
const PAGES_MAX: f64 = 64.0;

/// Maximum time of the database for some kinds of searches, in milliseconds.
const DATABASE_MS_MAX: [(&str, &str, f64); 3] = [
    ("no match", "no match, database", 5.0),
    ("hot wallet", "hot wallet, database", 1.0),
    ("offset 10,000", "offset 10,000, database", 3.0),
];

/// Number of executions after which the server has chosen one plan for all values, and number of timed executions after
/// that.
const EXPLAINED: (usize, usize) = (6, 5);

/// Runs all search benchmarks.
pub(crate) fn measure(filled: &Filled, scale: f64) -> anyhow::Result<Vec<Row>> {
    let recorded = recorded::record(filled)?;
    let folder = tempfile::tempdir()?;
    let running = filled.serve(&folder)?;
    let peer = peer::start(filled, &recorded, &folder)?;
    if let Some(peer) = &peer {
        filled
            .runtime
            .block_on(peer::compare(filled, running.address, peer.address))?;
    }
    let count = scaled(SEARCHES, scale);
    let rate = |address, count| -> anyhow::Result<f64> {
        let load = load::run_each(address, filled.calls(address, mixed()), (load::CONNECTIONS, count), 200)?;
        Ok(rate_per_s(count, load.time))
    };
    // Warm-up: every page is read once before the measurement.
    rate(running.address, filled.samples.len() * mixed().count())?;
    let (mut ours, mut pgbench, mut peers) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..REPEATS {
        ours.push(rate(running.address, count)?);
        pgbench.push(recorded::pgbench(filled, &recorded, count)?);
        if let Some(peer) = &peer {
            peers.push(rate(peer.address, count)?);
        }
        eprintln!("  searches: ours {ours:.0?}/s, pgbench {pgbench:.0?}/s, Node.js {peers:.0?}/s");
    }
    drop(peer);
    let row = |name, ours: &Vec<f64>, baseline_name, baseline, least| Row {
        name,
        unit: "searches/s",
        ours: ours.clone(),
        baseline_name,
        baseline,
        goal: Goal::Ratio(least),
    };
    let mut rows = vec![
        row(
            "search, pgbench",
            &ours,
            "pgbench, same statements",
            pgbench,
            PGBENCH_RATIO,
        ),
        row(
            "search, Node.js",
            &ours,
            "fastify + pg, same statements",
            peers,
            PEER_RATIO,
        ),
    ];
    let mut keyed_pages = Vec::new();
    println!("search: statements, pages, ms in the database, p50 in ms over HTTP on one connection");
    for (kind, statements) in &recorded {
        let calls = filled.calls(running.address, std::iter::once(*kind));
        let load = load::run_each(running.address, calls, (1, scaled(TIMED, scale)), 200)?;
        let (pages, ms) = explain(filled, statements, &filled.samples[0])?;
        let p50 = in_ms(percentile(&load.latencies, 50));
        println!("  {}: {}, {pages:.0}, {ms:.2}, {p50:.2}", kind.name, statements.len());
        keyed_pages.extend(kind.is_keyed.then_some(pages));
        let limit = DATABASE_MS_MAX.into_iter().find(|(name, ..)| *name == kind.name);
        rows.extend(limit.map(|(_, name, most)| at_most(name, "ms", ms, most)));
    }
    let most = keyed_pages.into_iter().fold(0.0, f64::max);
    rows.push(at_most("pages of a keyed search", "pages", most, PAGES_MAX));
    Ok(rows)
}

fn at_most(name: &'static str, unit: &'static str, ours: f64, most: f64) -> Row {
    Row {
        name,
        unit,
        ours: vec![ours],
        baseline_name: "",
        baseline: Vec::new(),
        goal: Goal::AtMost(most),
    }
}

/// Database pages that the statements of a search touch, and their database time, planning included, in milliseconds.
fn explain(filled: &Filled, statements: &[Statement], sample: &Sample) -> anyhow::Result<(f64, f64)> {
    let (mut pages, mut ms) = (0.0, 0.0);
    for statement in statements {
        let literals = statement.literals(sample);
        let arguments = if literals.is_empty() {
            String::new()
        } else {
            format!("({})", literals.join(", "))
        };
        let execute =
            format!("EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) EXECUTE search{arguments};\n\\echo ;\n");
        let script = format!(
            "PREPARE search AS {};\n{}",
            statement.text,
            execute.repeat(EXPLAINED.0 + EXPLAINED.1)
        );
        let answers = psql(&filled.database.url, &script, &[])?;
        let mut times = Vec::new();
        let mut touched = 0.0;
        for answer in answers
            .split(";\n")
            .filter(|answer| !answer.trim().is_empty())
            .skip(EXPLAINED.0)
        {
            let plan: Value = serde_json::from_str(answer)?;
            let number = |name: &str| {
                plan[0]
                    .pointer(name)
                    .and_then(Value::as_f64)
                    .context("a plan without numbers")
            };
            times.push(number("/Planning Time")? + number("/Execution Time")?);
            touched = number("/Plan/Shared Hit Blocks")? + number("/Plan/Shared Read Blocks")?;
        }
        pages += touched;
        ms += median(&times);
    }
    Ok((pages, ms))
}
