//! Measures with a hundred thousand payers how fast one payer is read, and how long a rotation of the master key takes
//! while payers are read.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use super::stage::{Stage, name};
use crate::load;
use crate::report::{Goal, REPEATS, Row, in_ms, percentile, scaled};
use crate::service::Running;

/// Registered payers.
const PAYERS: usize = 100_000;

/// Reads per second.
const RATE_PER_S: u32 = 300;

/// Number of reads in one run, which takes ten seconds.
const READS: usize = 3_000;

/// Number of reads between two checks whether the rotation is over. This number of reads takes about one second.
const READS_BETWEEN: usize = 300;

/// Goal for the 99th percentile of reads, in milliseconds.
const P99_MS_MAX: f64 = 10.0;

/// Maximum duration of a rotation, in seconds.
const ROTATION_S_MAX: f64 = 120.0;

/// The master key that replaces the key in [`crate::service::settings`].
const NEXT_KEY: &str = "7a";

pub(super) fn measure(scale: f64) -> anyhow::Result<Vec<Row>> {
    let mut stage = Stage::set()?;
    let payers = scaled(PAYERS, scale);
    let service = stage.serve("api")?;
    let begun = Instant::now();
    stage.register(&service, 0..payers)?;
    eprintln!(
        "  {payers} payers were registered in {:.0} s",
        begun.elapsed().as_secs_f64()
    );
    let p99: anyhow::Result<Vec<f64>> = (0..REPEATS)
        .map(|run| {
            let times = read(&stage, &service, (run, payers), scaled(READS, scale))?;
            Ok(in_ms(percentile(&times, 99)))
        })
        .collect();
    let p99 = p99?;
    drop(service);

    let former = stage.settings.secrets.master_key.take().context("no master key")?;
    stage.settings.secrets.master_keys = vec![NEXT_KEY.repeat(32), former];
    let service = stage.serve("api")?;
    let (rotation, beside) = rotate(&stage, &service, payers)?;
    drop(service);
    stage.strike()?;
    Ok(vec![
        Row::at_most("payer, p99", "ms", p99, P99_MS_MAX),
        Row::at_most(
            "rotation of their keys",
            "s",
            vec![rotation.as_secs_f64()],
            ROTATION_S_MAX,
        ),
        Row {
            goal: Goal::None,
            ..Row::at_most(
                "payer during rotation, p99",
                "ms",
                vec![in_ms(percentile(&beside, 99))],
                P99_MS_MAX,
            )
        },
    ])
}

/// Reads payers, spread over all payers; every response must be a 200.
fn read(
    stage: &Stage,
    service: &Running,
    (run, payers): (usize, usize),
    count: usize,
) -> anyhow::Result<Vec<Duration>> {
    let calls = (0..count).map(|turn| {
        let number = (turn * 7_919 + run) % payers;
        load::get(service.address, &format!("/v2/payer/{}", name(number)), &stage.key())
    });
    load::run_at(service.address, calls.collect(), (RATE_PER_S, count), 200)
}

/// Rotates the master key while payers are read; returns the duration of the rotation and those of the reads.
fn rotate(stage: &Stage, service: &Running, payers: usize) -> anyhow::Result<(Duration, Vec<Duration>)> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_prs"));
    command
        .args(["admin", "keys", "rotate", "--config"])
        .arg(stage.folder.path().join("prs.toml"))
        .current_dir(stage.folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    let begun = Instant::now();
    let mut rotation = command.spawn()?;
    let mut times = Vec::new();
    for run in 0.. {
        if let Some(status) = rotation.try_wait()? {
            ensure!(status.success(), "`prs admin keys rotate` ended with {status}");
            break;
        }
        times.extend(read(stage, service, (run, payers), READS_BETWEEN)?);
    }
    Ok((begun.elapsed(), times))
}
