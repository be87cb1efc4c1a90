//! A client of the abuse test: one process, one thread, a fixed rate.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::things::{Manners, Plan};

/// Makes the calls of the plan, and prints how long each call took, in microseconds.
pub(crate) fn run(plan: &str) -> anyhow::Result<()> {
    let plan: Plan = serde_json::from_str(plan)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let times = runtime.block_on(work(Arc::new(plan)))?;
    println!("{}", serde_json::to_string(&times)?);
    Ok(())
}

async fn work(plan: Arc<Plan>) -> anyhow::Result<Vec<u64>> {
    let gap = Duration::from_secs_f64(1.0 / plan.thing.rate_per_s(plan.manners));
    let begun = Instant::now();
    let mut due = begun;
    let mut acts = JoinSet::new();
    for number in 0.. {
        if due - begun >= Duration::from_secs_f64(plan.seconds) {
            break;
        }
        sleep_until(due).await;
        let plan = plan.clone();
        acts.spawn(async move {
            let held = plan.thing.act(&plan, number).await?;
            // If a call starts late, the delay counts as part of its duration.
            anyhow::Ok((due.elapsed(), held))
        });
        due += gap;
    }
    let is_measured = plan.manners == Manners::Modest;
    let (mut times, mut open) = (Vec::new(), Vec::new());
    while let Some(ended) = acts.join_next().await {
        match ended? {
            Ok((time, held)) => {
                times.push(u64::try_from(time.as_micros())?);
                open.extend(held);
            }
            Err(error) if is_measured => return Err(error),
            // The service may refuse a call of the greedy client or close its connection; this is not an error of the
            // test.
            Err(_) => {}
        }
    }
    Ok(times)
}
