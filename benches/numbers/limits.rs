//! Measures the cost of rate limits: the same calls once with limits that are never reached, and once without limits.

use std::time::Instant;

use crate::load;
use crate::report::{Goal, Row, rate_per_s, scaled};
use crate::service::{self, Running};

/// Calls of one run.
const CALLS: usize = 20_000;

/// Number of calls before the first run.
const WARM_UP_CALLS: usize = 2_000;

/// Number of pairs of runs. Many short alternating runs average out other load on the machine.
const PAIRS: usize = 9;

/// Goal for the rate with limits, as a fraction of the rate without limits: limits may cost at most three percent.
const GOAL_RATIO: f64 = 0.97;

/// Rate limit in calls per minute that no run reaches.
const UNREACHED_PER_MINUTE: u32 = 100_000_000;

/// Measures both services alternately, each as a separate process with its own database.
pub(crate) fn measure(scale: f64) -> anyhow::Result<Row> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let folders = [tempfile::tempdir()?, tempfile::tempdir()?];
    let mut sides = Vec::new();
    for (folder, is_limited) in folders.iter().zip([true, false]) {
        let mut settings = service::settings(format!("sqlite:{}", folder.path().join("prs.db").display()))?;
        settings.rate_limits.enabled = is_limited;
        settings.rate_limits.default_per_minute = UNREACHED_PER_MINUTE;
        settings.rate_limits.factor_outside_production = 1;
        let tenant = runtime.block_on(service::seed(&settings))?;
        let running = Running::serve(&settings, "api", folder.path())?;
        let headers = [("x-api-key", tenant.api_key.as_str())];
        let request = load::get(running.address, "/v2/currencies", &headers);
        load::run_expecting(running.address, request.clone(), WARM_UP_CALLS, 200)?;
        sides.push((running, request, Vec::new()));
    }
    let calls = scaled(CALLS, scale);
    for _ in 0..PAIRS {
        for (running, request, rates) in &mut sides {
            let started = Instant::now();
            load::run_expecting(running.address, request.clone(), calls, 200)?;
            rates.push(rate_per_s(calls, started.elapsed()));
        }
    }
    let mut rates = sides.into_iter().map(|(_, _, rates)| rates);
    Ok(Row {
        name: "limits",
        unit: "calls/s",
        ours: rates.next().unwrap_or_default(),
        baseline_name: "without limits",
        baseline: rates.next().unwrap_or_default(),
        goal: Goal::Ratio(GOAL_RATIO),
    })
}
