//! Measures what a hanging partner and forged callbacks cost clients whose calls do not concern payers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::anyhow;

use super::partner::{self, Signed};
use super::stage::{Stage, name};
use crate::create::BODY;
use crate::load;
use crate::report::{Goal, REPEATS, Row, in_ms, percentile, scaled};
use crate::service::Running;

/// Number of `POST /v2/request` calls per second.
const RATE_PER_S: u32 = 100;

/// Number of calls in one run, which takes ten seconds.
const CALLS: usize = 1_000;

/// Number of calls before the first run.
const WARM_UP_CALLS: usize = 1_000;

/// Maximum slowdown of calls that create requests: their 99th percentile while registrations hang or callbacks are
/// forged, divided by their 99th percentile without this load.
const GOAL_RATIO: f64 = 1.5;

/// Number of registrations that wait for the partner at the same time.
const WAITING: usize = 50;

/// Maximum duration of a registration while the partner hangs, in milliseconds.
const REFUSED_MS_MAX: f64 = 3_500.0;

/// Number of forged callbacks per second.
const FORGED_PER_S: u32 = 1_000;

/// Minimum time between two registrations of one caller: the time that a call waits for a hanging partner. After some
/// calls without a response, the service refuses further calls at once. Without this pause, the benchmark would measure
/// these quick refusals instead of waiting calls.
const WAIT: Duration = Duration::from_secs(3);

/// How long the hanging registrations or forged callbacks run before the measurement starts.
const HEAD_START: Duration = Duration::from_secs(1);

/// Creates requests, alternately alone and in parallel with hanging registrations or forged callbacks.
pub(super) fn measure(scale: f64) -> anyhow::Result<Vec<Row>> {
    let stage = Stage::set()?;
    let service = stage.serve("api")?;
    let request = load::post(service.address, "/v2/request", &stage.key(), BODY);
    load::run(service.address, request.clone(), WARM_UP_CALLS)?;
    let count = scaled(CALLS, scale);
    let p99 = || -> anyhow::Result<f64> {
        let times = load::run_at(service.address, vec![request.clone()], (RATE_PER_S, count), 201)?;
        Ok(in_ms(percentile(&times, 99)))
    };
    let (mut alone, mut hung, mut refused) = (Vec::new(), Vec::new(), Vec::new());
    let (mut quiet, mut forged) = (Vec::new(), Vec::new());
    for _ in 0..REPEATS {
        alone.push(p99()?);
        stage.partner.hang(true);
        let waiting = wait(&stage, &service);
        std::thread::sleep(HEAD_START);
        hung.push(p99()?);
        refused.extend(waiting.end()?.into_iter().map(in_ms).reduce(f64::max));
        stage.partner.hang(false);

        quiet.push(p99()?);
        let forger = forge(&service);
        std::thread::sleep(HEAD_START);
        forged.push(p99()?);
        forger.end()?;
    }
    drop(service);
    stage.strike()?;
    let beside = |name, ours, baseline| Row {
        name,
        unit: "ms",
        ours,
        baseline_name: "alone",
        baseline,
        goal: Goal::RatioAtMost(GOAL_RATIO),
    };
    Ok(vec![
        Row {
            name: "partner hangs, longest",
            unit: "ms",
            ours: refused,
            baseline_name: "",
            baseline: Vec::new(),
            goal: Goal::AtMost(REFUSED_MS_MAX),
        },
        beside("partner hangs, others' p99", hung, alone),
        beside("forged callbacks, others' p99", forged, quiet),
    ])
}

/// A thread of calls that continues until it is stopped.
struct Noise {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<anyhow::Result<Vec<Duration>>>,
}

impl Noise {
    /// Starts the thread, which repeats a round of calls. The round returns the duration of each call.
    fn of(round: impl Fn() -> anyhow::Result<Vec<Duration>> + Send + 'static) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = is_over.clone();
        let thread = std::thread::spawn(move || {
            let mut times = Vec::new();
            while !ends.load(Ordering::Relaxed) {
                times.extend(round()?);
            }
            Ok(times)
        });
        Self { is_over, thread }
    }

    /// The duration of each call.
    fn end(self) -> anyhow::Result<Vec<Duration>> {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| anyhow!("the noise panicked"))?
    }
}

/// Registers payers repeatedly while the partner hangs, so that the service refuses each registration. Two attempts of
/// a caller are at least [`WAIT`] apart.
fn wait(stage: &Stage, service: &Running) -> Noise {
    let address = service.address;
    let calls: Vec<Vec<u8>> = (0..WAITING).map(|number| stage.registration(service, number)).collect();
    Noise::of(move || {
        let begun = Instant::now();
        let refused = load::run_each(address, calls.clone(), (WAITING, WAITING), 502)?;
        std::thread::sleep(WAIT.saturating_sub(begun.elapsed()));
        Ok(refused.latencies)
    })
}

/// Sends unsigned callbacks.
fn forge(service: &Running) -> Noise {
    let address = service.address;
    let callback = partner::callback(address, &name(0), Signed::Forged);
    let count = FORGED_PER_S as usize;
    Noise::of(move || load::run_at(address, vec![callback.clone()], (FORGED_PER_S, count), 401))
}
