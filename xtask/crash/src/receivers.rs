//! Receivers that respond badly, hang, or are unreachable.

use std::collections::HashMap;
use std::thread;
use std::time::{Duration, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::fault::{Database, Fault};
use crate::plan::{Plan, QUIET_TIME};
use crate::report::Row;
use crate::stage::{POLL, Stage, member, milliseconds, wait_for};
use crate::verdict::Records;

/// Behaviours of receivers. Each has the status that the service must record for the attempt; `None` if the receiver
/// sends no usable response.
const BEHAVIOURS: [(&str, Option<u64>); 13] = [
    ("slow", None),
    ("hang", None),
    ("drip", None),
    ("huge", Some(200)),
    ("reset", None),
    ("half", None),
    ("lose", None),
    ("302", Some(302)),
    ("404", Some(404)),
    ("410", Some(410)),
    ("429", Some(429)),
    ("500", Some(500)),
    ("late", Some(200)),
];

/// Time limit of a delivery attempt, body included. Source: rules D.9.
const TRY_MS_MAX: u64 = 5_200;

/// Memory that bad receivers may use, in KiB. Source: rules D.9.
const MEMORY_KIB_MAX: u64 = 20 * 1_024;

/// Number of endpoints that respond, in addition to the endpoint that hangs. Source: rules D.10.
const GOOD_ENDPOINTS: usize = 99;

/// Number of rounds with the hanging receiver. The same number of rounds without it alternate with them.
const ISOLATION_ROUNDS: usize = 3;

/// Additional time that a busy machine may need, in milliseconds.
const NOISE_MS: i64 = 50;

/// Pauses before the second, third and fourth attempt of a delivery, in milliseconds. Source: interface §6.1 (5).
const DELAYS_MS: [i64; 3] = [1_000, 5_000, 15_000];

/// How late an attempt may be on a busy machine, in milliseconds. An endpoint that does not respond gets few slots, and
/// all its deliveries are due at about the same time.
const LATE_MS_MAX: i64 = 5_000;

/// Sends events to one receiver of every bad kind at the same time.
pub(crate) fn bad(plan: &Plan) -> Result<Row> {
    let mut stage = Stage::open(plan, Fault::BadReceivers, Database::Sqlite)?;
    // Measures the memory of the same load without any receiver.
    stage.make_events(&mut Records::default(), plan.bad_events)?;
    let calm_kib = stage.machines.service.memory_kib()?;
    let mut endpoints = HashMap::new();
    for (path, _) in BEHAVIOURS {
        endpoints.insert(path, stage.register(path)?);
    }
    let mut records = Records::default();
    stage.make_events(&mut records, plan.bad_events)?;
    let events = records.paid.len();
    let mut peak_kib = 0;
    let mut tries = Vec::new();
    for (path, _) in BEHAVIOURS {
        let of_endpoint = wait_for("an attempt of each delivery", || {
            peak_kib = peak_kib.max(stage.machines.service.memory_kib()?);
            let list = format!("/v2/deliveries?endpointId={}", endpoints[path]);
            let mut found = Vec::new();
            for delivery in stage.pages(&list, "deliveries")? {
                let detail = stage.get(&format!("/v2/deliveries/{}", member(&delivery, "id")?))?;
                let is_awaited = path == "lose" && detail["delivery"]["state"] == "queued";
                if detail["tries"].as_array().is_none_or(Vec::is_empty) || is_awaited {
                    return Ok(None);
                }
                found.push(detail);
            }
            Ok((found.len() == events).then_some(found))
        })?;
        tries.push((path, of_endpoint));
    }
    stage.collect(&mut records, "late");
    let verdict = stage.settle(&mut records, "late", Duration::ZERO)?;
    let mut row = Row::of(
        Fault::BadReceivers,
        Database::Sqlite,
        u64::try_from(events * BEHAVIOURS.len())?,
        &verdict,
    );

    let mut longest_ms = 0;
    for ((path, status), (_, details)) in BEHAVIOURS.iter().zip(&tries) {
        for detail in details {
            for tried in detail["tries"].as_array().context("no attempts")? {
                longest_ms = longest_ms.max(tried["durationMs"].as_u64().context("no durationMs")?);
            }
            let first = &detail["tries"][0];
            let shown = first["status"].as_u64().filter(|_| first["error"].is_null());
            row.check(shown == *status, || format!("an attempt of {path} shows {first}"));
            let is_delivered = detail["delivery"]["state"] == "delivered";
            let is_taken = matches!(*path, "late" | "huge" | "lose");
            row.check(is_delivered == is_taken, || {
                format!("a delivery to {path} is {}", detail["delivery"]["state"])
            });
        }
    }
    row.check(longest_ms <= TRY_MS_MAX, || format!("an attempt took {longest_ms} ms"));
    let growth_kib = peak_kib.saturating_sub(calm_kib);
    row.check(growth_kib <= MEMORY_KIB_MAX, || {
        format!("memory grew by {growth_kib} KiB")
    });
    let arrivals = stage.machines.sink.arrivals();
    let followed = arrivals.iter().filter(|arrival| arrival.path == "/ok").count();
    row.check(followed == 0, || format!("{followed} redirects were followed"));
    let lost: Vec<_> = arrivals.iter().filter(|arrival| arrival.path == "/lose").collect();
    let mut bodies: HashMap<&str, Vec<&[u8]>> = HashMap::new();
    for arrival in &lost {
        let id = arrival.header("x-service-delivery");
        bodies.entry(id).or_default().push(&arrival.delivery.body);
    }
    row.check(
        bodies.len() == events && bodies.values().all(|bodies| bodies.len() > 1),
        || "a delivery that was read without a response was not repeated with its identity".to_owned(),
    );
    row.changed += bodies
        .values()
        .filter(|same| same.iter().any(|body| *body != same[0]))
        .count();
    row.note(&format!(
        "{} behaviours, longest attempt {longest_ms} ms, memory +{} KiB",
        BEHAVIOURS.len(),
        growth_kib
    ));
    Ok(row)
}

/// Sends events to a hundred receivers of which one hangs.
pub(crate) fn one_hanging(plan: &Plan) -> Result<Row> {
    let mut stage = Stage::open(plan, Fault::HangingReceiver, Database::Sqlite)?;
    for number in 0..GOOD_ENDPOINTS {
        stage.register(&format!("ok?{number}"))?;
    }
    let mut records = Records::default();
    let (mut without, mut with, mut deliveries) = (Vec::new(), Vec::new(), 0);
    for round in 0..ISOLATION_ROUNDS {
        let times = latencies(&mut stage, &mut records, plan.isolated_events)?;
        deliveries += times.len();
        without.push(p99(times));
        let hanging = stage.register(&format!("hang?{round}"))?;
        let times = latencies(&mut stage, &mut records, plan.isolated_events)?;
        deliveries += times.len();
        with.push(p99(times));
        stage.deregister(&hanging)?;
    }
    let verdict = stage.settle(&mut records, "ok?0", Duration::ZERO)?;
    let mut row = Row::of(
        Fault::HangingReceiver,
        Database::Sqlite,
        u64::try_from(deliveries)?,
        &verdict,
    );
    with.sort_unstable();
    without.sort_unstable();
    let (usual, usual_without) = (with[ISOLATION_ROUNDS / 2], without[ISOLATION_ROUNDS / 2]);
    // On a busy machine, equal rounds differ by more than the allowed difference. The slowest round without the hanging
    // receiver therefore sets the limit.
    let slowest_without = without[ISOLATION_ROUNDS - 1];
    row.check(usual <= slowest_without * 12 / 10 + NOISE_MS, || {
        format!("with a hanging receiver the others waited {usual} ms, without it {slowest_without} ms at most (p99)")
    });
    row.note(&format!(
        "p99 of the others {usual_without} ms without it, {usual} ms with it"
    ));
    Ok(row)
}

/// Times from the creation of each event to its arrival at each responding endpoint, in milliseconds.
fn latencies(stage: &mut Stage, records: &mut Records, events: usize) -> Result<Vec<i64>> {
    let before = stage.machines.sink.count();
    let logged = stage.make_events(records, events)?;
    let created: HashMap<&str, i64> = logged
        .iter()
        .map(|event| (event.request_id.as_str(), event.created_ms))
        .collect();
    let expected = created.len() * GOOD_ENDPOINTS;
    let arrivals = wait_for("all deliveries to good endpoints", || {
        let arrivals = stage.machines.sink.arrivals_after(before);
        Ok((arrivals.len() >= expected).then_some(arrivals))
    })?;
    let mut times = Vec::new();
    for arrival in arrivals {
        let event: Value = serde_json::from_slice(&arrival.delivery.body)?;
        let at = i64::try_from(arrival.at.duration_since(UNIX_EPOCH)?.as_millis())?;
        times.extend(created.get(member(&event, "requestId")?).map(|created| at - created));
    }
    Ok(times)
}

fn p99(mut times: Vec<i64>) -> i64 {
    times.sort_unstable();
    times.get(times.len() * 99 / 100).copied().unwrap_or_default()
}

/// The receiver is unreachable until every delivery has used all attempts. All events are replayed when the receiver is
/// back.
pub(crate) fn away(plan: &Plan) -> Result<Row> {
    let mut stage = Stage::open(plan, Fault::AbsentReceiver, Database::Postgres)?;
    let endpoint = stage.register("late")?;
    stage.machines.sink.close();
    let mut records = Records::default();
    let events = stage.make_events(&mut records, plan.missed_events)?;
    let list = format!("/v2/deliveries?endpointId={endpoint}&state=failed");
    let failed = wait_for("the end of the repetitions", || {
        thread::sleep(POLL * 10);
        let failed = stage.pages(&list, "deliveries")?;
        Ok((failed.len() == events.len()).then_some(failed))
    })?;
    let (mut early, mut late_ms, mut wrong_tries) = (0, 0, 0);
    for delivery in &failed {
        let detail = stage.get(&format!("/v2/deliveries/{}", member(delivery, "id")?))?;
        let tries = detail["tries"].as_array().context("no attempts")?;
        wrong_tries += usize::from(tries.len() != 1 + DELAYS_MS.len());
        for (pair, delay_ms) in tries.windows(2).zip(DELAYS_MS) {
            let [one, next] = pair else { bail!("no pair") };
            let took_ms = i64::try_from(one["durationMs"].as_u64().context("no durationMs")?)?;
            let begun = milliseconds(member(one, "startedAt")?)?;
            let lateness = milliseconds(member(next, "startedAt")?)? - begun - took_ms - delay_ms;
            // Both times are rounded to milliseconds, so an attempt may seem to be a millisecond early.
            early += usize::from(lateness < -1);
            late_ms = late_ms.max(lateness);
        }
    }
    stage.machines.sink.reopen()?;
    let replayed = stage.replay(true)?;
    let verdict = stage.settle(&mut records, "late", Duration::ZERO)?;
    let mut row = Row::of(
        Fault::AbsentReceiver,
        Database::Postgres,
        u64::try_from(events.len())?,
        &verdict,
    );
    row.check(wrong_tries == 0, || {
        format!("{wrong_tries} deliveries did not have 4 attempts")
    });
    row.check(early == 0, || format!("{early} repetitions came early"));
    row.check(late_ms <= LATE_MS_MAX, || {
        format!("a repetition came {late_ms} ms late")
    });
    row.check(usize::try_from(replayed)? == events.len(), || {
        format!("{replayed} deliveries were queued again instead of {}", events.len())
    });
    row.note(&format!(
        "attempts at 0, 1, 6 and 21 s, {late_ms} ms late at most; replay delivered {} of {}",
        verdict.events_expected - verdict.events_lost,
        verdict.events_expected
    ));
    // If the replay sent a delivery twice, the second one would arrive during this pause.
    thread::sleep(if plan.is_short { POLL } else { QUIET_TIME });
    let arrived = stage.machines.sink.count();
    row.check(arrived == events.len(), || {
        format!("the replay arrived {arrived} times instead of {}", events.len())
    });
    Ok(row)
}
