//! Runs the service again and again until it dies at a crash point, while payers keep calling it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use fastrand::Rng;
use xtask::machine::command;

use crate::client::Client;
use crate::plan::Plan;
use crate::stage::{Machines, PAYERS};

/// Time limit for a process to reach its crash point.
const POINT_TIMEOUT: Duration = Duration::from_secs(12);

/// Maximum number of times that a process passes a crash point before it ends there.
const PASSES_MAX: u64 = 2;

/// Runs every payer until `is_over`. Meanwhile the service dies `plan.rounds_per_point` times at each crash point. A
/// point that was never reached gets one more try, at its first pass. Returns the points at which the service died.
pub(crate) fn die(
    plan: &Plan,
    points: &[&'static str],
    (machines, client, is_over): (&mut Machines, &Client, &AtomicBool),
    work: impl Fn(usize) -> Result<()> + Sync,
) -> Result<Vec<&'static str>> {
    thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = PAYERS
            .into_iter()
            .map(|account| scope.spawn(move || work(account)))
            .collect();
        let has_ended = || threads.iter().any(thread::ScopedJoinHandle::is_finished);
        let reached = deaths(plan, points, machines, has_ended);
        is_over.store(true, Ordering::SeqCst);
        if reached.is_err() {
            client.give_up();
        }
        let mut outcome = Ok(());
        for thread in threads {
            let ended = thread.join();
            outcome = outcome.and(ended.unwrap_or_else(|_| Err(anyhow!("a payer panicked"))));
        }
        outcome.and(reached)
    })
}

fn deaths(
    plan: &Plan,
    points: &[&'static str],
    machines: &mut Machines,
    has_ended: impl Fn() -> bool,
) -> Result<Vec<&'static str>> {
    let mut rng = Rng::with_seed(plan.seed);
    let mut reached = Vec::new();
    machines.service.kill()?;
    let mut live = |reached: &mut Vec<&'static str>, point: &'static str, passes: u64| {
        if command::interrupted() {
            bail!("interrupted");
        }
        if has_ended() {
            bail!("the load ended before the last round");
        }
        let when = match passes {
            0 => String::new(),
            passes => format!("{passes}*off->"),
        };
        machines.service.launch(Some(&format!("{point}={when}return")))?;
        if machines.service.ended_within(POINT_TIMEOUT)? {
            reached.push(point);
        }
        Ok(())
    };
    for _ in 0..plan.rounds_per_point {
        let mut order = points.to_vec();
        rng.shuffle(&mut order);
        for point in order {
            live(&mut reached, point, rng.u64(0..=PASSES_MAX))?;
        }
    }
    for point in points {
        if !reached.contains(point) {
            live(&mut reached, point, 0)?;
        }
    }
    machines.service.start()?;
    Ok(reached)
}
