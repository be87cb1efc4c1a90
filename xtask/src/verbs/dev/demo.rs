//! The demonstration of `cargo xtask dev --demo`: one request, from its creation to the signed event about its payment.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use xtask::machine::command::{self, POLL};
use xtask::service::chain;
use xtask::service::client::Client;
use xtask::service::delivery::{Delivery, EVENT};
use xtask::service::hooks::Hooks;
use xtask::service::ready::{Ready, sample_request};

/// Time limit for one step of the demonstration.
const STEP_TIMEOUT: Duration = Duration::from_secs(60);

/// Runs all steps, and prints for each step when it happened.
pub(crate) fn run(ready: &Ready) -> Result<()> {
    let service = ready.client("x-client-id", "/backendClientId")?;
    let receiver = Hooks::listen(0, |_| 200).context("step `receiver`")?;
    let hook = json!({"url": receiver.url()});
    let registered = service.create("/v1/webhook", &hook).context("step `receiver`")?;
    let secret = registered["secret"]
        .as_str()
        .context("step `receiver`: the response has no secret")?;

    let mut timeline = Timeline::start();
    let body = sample_request(ready.account(1)?);
    let created = service.create("/v2/request", &body).context("step `created`")?;
    let request_id = created["requestId"]
        .as_str()
        .context("step `created`: the response has no requestId")?;
    timeline.reached("created", request_id, Instant::now());

    let hashes = chain::pay(&service, ready, request_id, 0).context("step `paid`")?;
    timeline.reached("paid", &hashes.join(", "), Instant::now());

    let path = format!("/v2/request/{request_id}");
    let detected = |request: &Value| !request["detectedAmount"].is_null() || request["hasBeenPaid"] == true;
    let request = wait_for(&service, &path, detected).context("step `detected`")?;
    let amount = request["detectedAmount"].as_str().unwrap_or("the whole amount");
    timeline.reached("detected", amount, Instant::now());

    let request = wait_for(&service, &path, |request| request["hasBeenPaid"] == true).context("step `confirmed`")?;
    timeline.reached(
        "confirmed",
        request["status"].as_str().unwrap_or_default(),
        Instant::now(),
    );

    let is_meant = |event: &Value, _: &Delivery| event["event"] == EVENT && event["requestId"] == request_id;
    let arrived = receiver.wait(1, STEP_TIMEOUT, is_meant).into_iter().next();
    let delivery = arrived
        .with_context(|| format!("no {EVENT} after {} s", STEP_TIMEOUT.as_secs()))
        .context("step `delivered`")?;
    delivery.verify(secret).context("step `delivered`")?;
    timeline.reached("delivered", &format!("{EVENT}, signature verified"), delivery.arrived);
    Ok(())
}

/// Prints each step with the time since the start and the time since the previous step.
struct Timeline {
    begun: Instant,
    last: Instant,
}

impl Timeline {
    fn start() -> Self {
        let now = Instant::now();
        Self { begun: now, last: now }
    }

    fn reached(&mut self, step: &str, detail: &str, at: Instant) {
        let (total, since) = (
            at.saturating_duration_since(self.begun),
            at.saturating_duration_since(self.last),
        );
        println!(
            "{step:<10} {:>7} ms  (+{} ms)  {detail}",
            total.as_millis(),
            since.as_millis()
        );
        self.last = self.last.max(at);
    }
}

fn wait_for(service: &Client, path: &str, reached: impl Fn(&Value) -> bool) -> Result<Value> {
    let deadline = Instant::now() + STEP_TIMEOUT;
    loop {
        let request = service.get(path)?;
        if reached(&request) {
            return Ok(request);
        }
        if command::interrupted() {
            bail!("interrupted");
        }
        if Instant::now() > deadline {
            bail!(
                "not reached within {} s; the request is {request}",
                STEP_TIMEOUT.as_secs()
            );
        }
        std::thread::sleep(POLL);
    }
}
