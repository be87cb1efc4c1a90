//! Start and memory of the service on SQLite with nothing to do.

use std::thread;
use std::time::Duration;

use crate::report::{Goal, REPEATS, Row, in_ms, scaled};
use crate::service::{self, Running};

/// Starts whose median counts, each with an empty folder, migrations included.
const STARTS: usize = 10;

/// Longest start that we want, in milliseconds.
const GOAL_START_MS: f64 = 300.0;

/// Most memory that we want, in megabytes.
const GOAL_MEMORY_MB: f64 = 60.0;

/// Time without any work before memory is read.
const IDLE: Duration = Duration::from_secs(10);

const BYTES_PER_KB: u64 = 1_000;
const KB_PER_MB: f64 = 1_000.0;

/// Measures starts, then memory.
pub(crate) fn measure(scale: f64) -> anyhow::Result<Vec<Row>> {
    let (mut starts, mut bare_starts) = (Vec::new(), Vec::new());
    for _ in 0..scaled(STARTS, scale) {
        let folder = tempfile::tempdir()?;
        starts.push(in_ms(serve(folder.path())?.ready_after));
        bare_starts.push(in_ms(Running::bare(None)?.ready_after));
    }
    let (mut memory, mut bare_memory) = (Vec::new(), Vec::new());
    for _ in 0..REPEATS {
        let folder = tempfile::tempdir()?;
        let (ours, bare) = (serve(folder.path())?, Running::bare(None)?);
        thread::sleep(IDLE);
        memory.push(in_mb(ours.resident_bytes()?));
        bare_memory.push(in_mb(bare.resident_bytes()?));
    }
    Ok(vec![
        Row {
            name: "idle start",
            unit: "ms",
            ours: starts,
            baseline_name: "bare axum",
            baseline: bare_starts,
            goal: Goal::AtMost(GOAL_START_MS),
        },
        Row {
            name: "idle memory",
            unit: "MB",
            ours: memory,
            baseline_name: "bare axum",
            baseline: bare_memory,
            goal: Goal::AtMost(GOAL_MEMORY_MB),
        },
    ])
}

fn serve(folder: &std::path::Path) -> anyhow::Result<Running> {
    let settings = service::settings(format!("sqlite:{}", folder.join("prs.db").display()))?;
    Running::serve(&settings, "all", folder)
}

fn in_mb(bytes: u64) -> f64 {
    let kb = u32::try_from(bytes / BYTES_PER_KB).unwrap_or(u32::MAX);
    f64::from(kb) / KB_PER_MB
}
