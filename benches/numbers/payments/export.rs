//! Measures exports: their rate compared with `COPY` of the same columns, their memory, and how long searches take in
//! parallel with them.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{anyhow, ensure};

use super::{ALL, Filled, mixed, psql};
use crate::load;
use crate::report::{Goal, REPEATS, Row, in_ms, percentile, rate_per_s, scaled};
use crate::service::Running;

/// Number of searches in one run in parallel with an export, one after another.
const SEARCHES: usize = 5_000;

/// Memory that exports may use in addition to that of the idle service, in MB.
const MEMORY_MB_MAX: f64 = 50.0;

/// Maximum slowdown of searches: their 99th percentile in parallel with an export, divided by their 99th percentile
/// alone.
const BESIDE_RATIO: f64 = 1.5;

/// Pause between two readings of the memory.
const LOOK_PAUSE: Duration = Duration::from_millis(10);

/// The baseline: copies the rows of an export as CSV, without sorting them.
const COPY: &str = "COPY (SELECT payments.*, requests.status, requests.customer FROM payments JOIN requests \
     ON requests.id = payments.request_row) TO STDOUT (FORMAT csv)";

/// Runs all export benchmarks.
pub(crate) fn measure(filled: &Filled, scale: f64) -> anyhow::Result<Vec<Row>> {
    let folder = tempfile::tempdir()?;
    let running = filled.serve(&folder)?;
    let idle = running.resident_bytes()?;
    let (mut ours, mut copied, mut grown_mb) = (Vec::new(), Vec::new(), Vec::new());
    let (mut alone, mut beside) = (Vec::new(), Vec::new());
    let p99 = || -> anyhow::Result<f64> {
        let calls = filled.calls(running.address, mixed());
        let load = load::run_each(running.address, calls, (1, scaled(SEARCHES, scale)), 200)?;
        Ok(in_ms(percentile(&load.latencies, 99)))
    };
    p99()?;
    let never = AtomicBool::new(false);
    for _ in 0..REPEATS {
        alone.push(p99()?);
        let started = Instant::now();
        let (rows, peak) = watched(&running, || export(filled, running.address, &never))?;
        ours.push(rate_per_s(rows, started.elapsed()));
        let started = Instant::now();
        psql(&filled.database.url, COPY, &["--output=/dev/null".to_owned()])?;
        copied.push(rate_per_s(rows, started.elapsed()));
        let is_enough = AtomicBool::new(false);
        let (p99, peak_beside) = watched(&running, || {
            std::thread::scope(|scope| {
                let exports = scope.spawn(|| -> anyhow::Result<()> {
                    while !is_enough.load(Ordering::Relaxed) {
                        export(filled, running.address, &is_enough)?;
                    }
                    Ok(())
                });
                let p99 = p99();
                is_enough.store(true, Ordering::Relaxed);
                exports.join().map_err(|_| anyhow!("an export panicked"))??;
                p99
            })
        })?;
        beside.push(p99);
        // The number of bytes is far below 2^52, so its conversion to a float is exact.
        grown_mb.push((peak.max(peak_beside) - idle) as f64 / 1e6);
        eprintln!(
            "  exports: {ours:.0?} rows/s, COPY {copied:.0?} rows/s, p99 beside {beside:.1?} ms, alone {alone:.1?} ms"
        );
    }
    Ok(vec![
        Row {
            name: "export",
            unit: "rows/s",
            ours,
            baseline_name: "COPY of psql",
            baseline: copied,
            goal: Goal::None,
        },
        Row {
            name: "export, memory",
            unit: "MB",
            ours: grown_mb,
            baseline_name: "",
            baseline: Vec::new(),
            goal: Goal::AtMost(MEMORY_MB_MAX),
        },
        Row {
            name: "search during export, p99",
            unit: "ms",
            ours: beside,
            baseline_name: "alone",
            baseline: alone,
            goal: Goal::RatioAtMost(BESIDE_RATIO),
        },
    ])
}

/// Reads an export of all payments to its end, or until enough rows were read; returns the number of rows.
fn export(filled: &Filled, address: SocketAddr, is_enough: &AtomicBool) -> anyhow::Result<usize> {
    filled.runtime.block_on(async {
        let client = reqwest::Client::builder().no_proxy().build()?;
        let (name, credential) = filled.credential(&ALL);
        let path = ALL.path(&filled.samples[0]).replacen('?', "/export?", 1);
        let get = client.get(format!("http://{address}{path}")).header(name, credential);
        let mut answer = get.send().await?.error_for_status()?;
        let mut lines = 0;
        while let Some(bytes) = answer.chunk().await? {
            lines += bytes.iter().filter(|byte| **byte == b'\n').count();
            if is_enough.load(Ordering::Relaxed) {
                return Ok(lines);
            }
        }
        // The first line is the header.
        ensure!(lines == filled.rows + 1, "{lines} lines for {} payments", filled.rows);
        Ok(filled.rows)
    })
}

/// Runs a closure and watches the memory of the service; returns the result and the peak in bytes.
fn watched<T>(running: &Running, act: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<(T, u64)> {
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| -> anyhow::Result<u64> {
            let mut peak = 0;
            while !is_done.load(Ordering::Relaxed) {
                peak = peak.max(running.resident_bytes()?);
                std::thread::sleep(LOOK_PAUSE);
            }
            Ok(peak)
        });
        let done = act();
        is_done.store(true, Ordering::Relaxed);
        let peak = watcher.join().map_err(|_| anyhow!("the watcher panicked"))??;
        Ok((done?, peak))
    })
}
