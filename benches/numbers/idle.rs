//! Measures the start, the memory and the processor time of the idle service on SQLite, and of `prs dev` with its
//! chain.

use std::process::Command;
use std::thread;
use std::time::Duration;

use crate::report::{Goal, REPEATS, Row, in_ms, scaled};
use crate::service::{self, Running};

/// Number of starts, of which the median counts. Each starts with an empty folder and includes the migrations.
const STARTS: usize = 10;

/// Goal for the start, in milliseconds.
const GOAL_START_MS: f64 = 120.0;

/// Goal for the memory, in megabytes.
const GOAL_MEMORY_MB: f64 = 45.0;

/// Goal for the size of the program, in megabytes.
const GOAL_PROGRAM_MB: f64 = 40.0;

/// Goals for the processor time, in percent of one core: of the service, and of `prs dev` together with its chain.
const GOAL_PROCESSOR: f64 = 0.5;
const GOAL_DEV_PROCESSOR: f64 = 1.0;

/// Idle time before memory is read.
const IDLE: Duration = Duration::from_secs(10);

/// Time over which processor time is counted, after the memory was read. The kernel counts in hundredths of a second.
const COUNTED: Duration = Duration::from_secs(30);

const BYTES_PER_KB: u64 = 1_000;
const KB_PER_MB: f64 = 1_000.0;

/// Measures starts, then memory and processor time.
pub(crate) fn measure(scale: f64) -> anyhow::Result<Vec<Row>> {
    let (mut starts, mut bare_starts) = (Vec::new(), Vec::new());
    for _ in 0..scaled(STARTS, scale) {
        let folder = tempfile::tempdir()?;
        starts.push(in_ms(serve(folder.path())?.ready_after));
        bare_starts.push(in_ms(Running::bare(None)?.ready_after));
    }
    let (mut memory, mut bare_memory) = (Vec::new(), Vec::new());
    let (mut processor, mut dev_processor) = (Vec::new(), Vec::new());
    for _ in 0..REPEATS {
        let folder = tempfile::tempdir()?;
        let (ours, bare) = (serve(folder.path())?, Running::bare(None)?);
        thread::sleep(IDLE);
        memory.push(in_mb(ours.resident_bytes()?));
        bare_memory.push(in_mb(bare.resident_bytes()?));
        processor.push(counted(&ours)?);
        drop((ours, bare));
        let folder = tempfile::tempdir()?;
        let dev = dev(folder.path())?;
        thread::sleep(IDLE);
        dev_processor.push(counted(&dev)?);
    }
    let program = std::fs::metadata(env!("CARGO_BIN_EXE_prs"))?.len();
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
        Row::at_most("idle processor", "% of a core", processor, GOAL_PROCESSOR),
        Row::at_most(
            "idle processor of dev",
            "% of a core",
            dev_processor,
            GOAL_DEV_PROCESSOR,
        ),
        Row::at_most("program", "MB", vec![in_mb(program)], GOAL_PROGRAM_MB),
    ])
}

/// Processor time of an idle process and its children, in percent of one core.
fn counted(running: &Running) -> anyhow::Result<f64> {
    let before = running.processor_time()?;
    thread::sleep(COUNTED);
    let taken = running.processor_time()?.saturating_sub(before);
    Ok(taken.as_secs_f64() / COUNTED.as_secs_f64() * 100.0)
}

/// `prs dev`, with its database in this folder.
fn dev(folder: &std::path::Path) -> anyhow::Result<Running> {
    let address = service::free_address()?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_prs"));
    command.args(["dev", "--port", &address.port().to_string(), "--data"]);
    command.arg(folder).stderr(std::process::Stdio::null());
    Running::start(command, address, "/health/ready")
}

fn serve(folder: &std::path::Path) -> anyhow::Result<Running> {
    let settings = service::settings(format!("sqlite:{}", folder.join("prs.db").display()))?;
    Running::serve(&settings, "all", folder)
}

fn in_mb(bytes: u64) -> f64 {
    let kb = u32::try_from(bytes / BYTES_PER_KB).unwrap_or(u32::MAX);
    f64::from(kb) / KB_PER_MB
}
