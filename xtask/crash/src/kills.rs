//! The service dies at random moments, and at crash points, which are named places in its code.

use std::collections::HashSet;
use std::time::Duration;

use anyhow::{Context, Result};
use fastrand::Rng;

use crate::fault::{Database, Fault};
use crate::plan::{Plan, QUIET_TIME};
use crate::report::Row;
use crate::stage::Stage;

/// How long the service runs before it is killed, in milliseconds.
const LIFE_MS: std::ops::RangeInclusive<u64> = 50..=500;

/// How long a long life of the service lasts, in milliseconds; one life in [`LONG_LIFE_EVERY`] is long. On a busy
/// machine, a slow build is killed in a short life before it confirms or delivers anything.
const LONG_LIFE_MS: std::ops::RangeInclusive<u64> = 500..=2_000;

const LONG_LIFE_EVERY: u64 = 2;

/// Time limit for a process to reach its crash point. Some crash points are reached only after a payment.
const POINT_TIMEOUT: Duration = Duration::from_secs(10);

/// Pause of each writer between two requests.
const PACE: Duration = Duration::from_millis(100);

/// Maximum number of times that a process passes a crash point before it ends there.
const PASSES_MAX: u64 = 3;

/// Crash points, at which the process can die: before and after each commit, and at steps inside and between commits.
/// The points that record payments near the head are left out: every block is final at once here, so nothing depends on
/// these records.
const POINTS: [&str; 19] = [
    "create_request.begun",
    "create_request.inserted",
    "create_request.before_commit",
    "create_request.after_commit",
    "confirm_blocks.begun",
    "confirm_blocks.recorded",
    "confirm_blocks.credited",
    "publish.event_inserted",
    "publish.deliveries_inserted",
    "confirm_blocks.before_commit",
    "confirm_blocks.after_commit",
    "claim_deliveries.begun",
    "claim_deliveries.before_commit",
    "claim_deliveries.after_commit",
    "send.before",
    "send.after",
    "record_tries.begun",
    "record_tries.before_commit",
    "record_tries.after_commit",
];

/// Number of points.
pub(crate) const POINTS_COUNT: u64 = POINTS.len() as u64;

/// Kills at random moments.
pub(crate) fn random(plan: &Plan, database: Database) -> Result<Row> {
    let mut stage = Stage::open(plan, Fault::Kills, database)?;
    stage.register("late")?;
    let kills = plan.kills;
    let (restarts, mut records) = stage.under_load(|machines, pressure| {
        let mut rng = Rng::with_seed(plan.seed);
        let mut restarts = Vec::new();
        for round in 1..=kills {
            let is_long = round.is_multiple_of(LONG_LIFE_EVERY);
            let life_ms = rng.u64(if is_long { LONG_LIFE_MS } else { LIFE_MS });
            pressure.pause(Duration::from_millis(life_ms))?;
            machines.service.kill()?;
            let restart = machines.service.start();
            restarts.push(restart.with_context(|| format!("start after kill {round}"))?);
            pressure.next_round();
        }
        Ok(restarts)
    })?;
    let verdict = stage.settle(&mut records, "late", QUIET_TIME)?;
    let mut row = Row::of(Fault::Kills, database, kills, &verdict);
    let longest = restarts.iter().max().copied().unwrap_or_default();
    row.note(&format!(
        "ready again after {} ms, at most {} ms",
        median(&restarts).as_millis(),
        longest.as_millis()
    ));
    Ok(row)
}

/// Makes the process die at each point, `plan.rounds_per_point` times.
pub(crate) fn at_points(plan: &Plan, database: Database) -> Result<Row> {
    let mut stage = Stage::open(plan, Fault::CommitEdges, database)?;
    stage.register("late")?;
    // If payments pile up, each step takes long and the process reaches few crash points.
    stage.pace = PACE;
    let (reached, mut records) = stage.under_load(|machines, pressure| {
        let mut rng = Rng::with_seed(plan.seed);
        let mut reached = HashSet::new();
        machines.service.kill()?;
        let mut live = |reached: &mut HashSet<&'static str>, point: &'static str, passes: u64| {
            let when = if passes == 0 {
                String::new()
            } else {
                format!("{passes}*off->")
            };
            machines.service.launch(Some(&format!("{point}={when}return")))?;
            if machines.service.ended_within(POINT_TIMEOUT)? {
                reached.insert(point);
            }
            pressure.next_round();
            pressure.pause(Duration::ZERO)
        };
        for _ in 0..plan.rounds_per_point {
            let mut order = POINTS;
            rng.shuffle(&mut order);
            for point in order {
                live(&mut reached, point, rng.u64(0..=PASSES_MAX))?;
            }
        }
        // On a busy machine, a process may be stopped by its time limit before it reaches a rare crash point.
        for point in POINTS {
            if !reached.contains(point) {
                live(&mut reached, point, 0)?;
            }
        }
        machines.service.start()?;
        Ok(reached)
    })?;
    let verdict = stage.settle(&mut records, "late", QUIET_TIME)?;
    let rounds = plan.rounds_per_point * POINTS_COUNT;
    let mut row = Row::of(Fault::CommitEdges, database, rounds, &verdict);
    let never: Vec<&str> = POINTS.into_iter().filter(|point| !reached.contains(point)).collect();
    row.check(never.is_empty(), || format!("never reached: {}", never.join(", ")));
    row.note(&format!("{} of {} points reached", reached.len(), POINTS.len()));
    Ok(row)
}

/// The median.
pub(crate) fn median(times: &[Duration]) -> Duration {
    let mut sorted = times.to_vec();
    sorted.sort();
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}
