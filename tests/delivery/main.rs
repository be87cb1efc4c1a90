//! Delivery under faults: the real worker and sender, a real database, and receivers on real sockets.
//!
//! Source: rules A.4; rules A.5; rules D.3; rules D.8; rules D.9; rules D.10; rules D.11; rules D.23.
#![expect(clippy::expect_used, reason = "a step of a test that fails ends the test")]
#![expect(unreachable_pub, reason = "the modules of a test binary have no other readers")]

#[path = "../support/database.rs"]
mod database;
mod guard;
mod receiver;
#[allow(
    dead_code,
    reason = "deliveries are tested without the HTTP side, where secrets are issued"
)]
#[path = "../support/secrets.rs"]
mod secrets;
mod service;

use prs::{
    domain::{
        ids::EndpointId,
        webhook::{DeliveryState, sign},
    },
    store::delivery_log::DeliveryRecord,
};
use receiver::Receiver;
use service::{SECRET, Service, USUAL, Worker, work};
use std::{
    collections::{HashMap, HashSet},
    time::{Duration, Instant},
};

const LONG: Duration = Duration::from_secs(30);

/// Resident memory of this process.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("a size");
    line.split_whitespace().nth(1).expect("a number").parse().expect("KiB")
}

fn first_try_ms(delivery: &DeliveryRecord) -> i64 {
    let outcome = &delivery.tries[0].outcome;
    (outcome.ended_at - outcome.started_at).num_milliseconds()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_bad_receiver_costs_one_try_of_five_seconds_at_most() {
    let service = Service::start().await;
    let receiver = Receiver::start().await;
    let modes = [
        ("hang", None),
        ("drip", Some(200)),
        ("slow", None),
        ("half", None),
        ("reset", None),
        ("lose", None),
        ("302", Some(302)),
        ("410", Some(410)),
        ("429", Some(429)),
        ("500", Some(500)),
    ];
    let mut endpoints = Vec::new();
    for (mode, _) in modes {
        endpoints.push(service.endpoint(&receiver.url(mode)).await);
    }
    let events = service.publish(&endpoints, 1).await;
    let worker = work(&service.ctx, USUAL);
    for ((mode, status), endpoint) in modes.iter().zip(&endpoints) {
        service
            .wait_for_tries(&events[0], endpoint, 1, Duration::from_secs(8))
            .await;
        let delivery = service.delivery(&events[0], endpoint).await;
        let elapsed_ms = first_try_ms(&delivery);
        assert!(elapsed_ms <= 5_200, "{mode}: {elapsed_ms} ms");
        assert_eq!(delivery.tries[0].outcome.status, *status, "{mode}");
        assert!(!delivery.tries[0].outcome.is_success(), "{mode}");
    }
    // The receiver processed the first attempt, but its response was lost. The retry repeats the same delivery, byte
    // for byte.
    service.wait_for_tries(&events[0], &endpoints[5], 2, LONG).await;
    worker.stop().await;
    let seen = receiver.seen();
    assert!(
        seen.iter().all(|one| one.path != "/ok/followed"),
        "a redirect was followed"
    );
    let lost: Vec<_> = seen.iter().filter(|one| one.path == "/lose").collect();
    assert_eq!((lost[0].retry_count.as_str(), lost[1].retry_count.as_str()), ("0", "1"));
    assert!(lost.iter().all(|one| {
        one.delivery == lost[0].delivery
            && one.body == lost[0].body
            && one.signature == sign(SECRET, one.body.as_bytes())
    }));
    for path in modes.map(|(mode, _)| format!("/{mode}")) {
        let times: Vec<Instant> = seen.iter().filter(|one| one.path == path).map(|one| one.at).collect();
        if let [first, second, ..] = times[..] {
            assert!(
                second - first >= Duration::from_millis(999),
                "{path} was attempted again early"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_without_end_do_not_fill_the_memory() {
    let service = Service::start().await;
    let receiver = Receiver::start().await;
    let endpoint = service.endpoint(&receiver.url("huge")).await;
    let warm = service.publish(std::slice::from_ref(&endpoint), 16).await;
    let worker = work(&service.ctx, USUAL);
    service.wait_until_done(LONG).await;
    let before_kib = resident_kib();
    let events = service.publish(std::slice::from_ref(&endpoint), 200).await;
    let mut most_kib = before_kib;
    while service.count("state = 'queued'").await > 0 {
        most_kib = most_kib.max(resident_kib());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    worker.stop().await;
    let grown_kib = most_kib - before_kib;
    println!("200 endless answers: {grown_kib} KiB");
    assert!(grown_kib <= 20 * 1024, "{grown_kib} KiB");
    let delivery = service.delivery(&events[0], &endpoint).await;
    assert_eq!(delivery.state, DeliveryState::Delivered, "the status decides");
    assert!(first_try_ms(&delivery) <= 5_200);
    assert_eq!(receiver.times().len(), warm.len() + events.len());
}

/// A running service with 99 endpoints that respond with success, and the times at which its events were committed.
struct Side {
    service: Service,
    receiver: Receiver,
    endpoints: Vec<EndpointId>,
    worker: Worker,
    committed: HashMap<String, Instant>,
}

impl Side {
    /// Starts a service whose connections to the 99 endpoints are already open. With `has_hanging`, it also has an
    /// endpoint that never responds: the deliveries to that endpoint occupy all the slots that one endpoint may use,
    /// and more of them are queued.
    async fn start(has_hanging: bool) -> Self {
        let service = Service::start().await;
        let receiver = Receiver::start().await;
        let mut endpoints = spread(&service, &receiver, "ok", 99).await;
        let hanging = service.endpoint(&receiver.url("hang")).await;
        if has_hanging {
            service.publish(std::slice::from_ref(&hanging), 1_500).await;
        }
        let worker = work(&service.ctx, USUAL);
        service.publish(&endpoints, 1).await;
        receiver.wait_for(99, LONG).await;
        if has_hanging {
            endpoints.push(hanging);
        }
        Self {
            service,
            receiver,
            endpoints,
            worker,
            committed: HashMap::new(),
        }
    }

    async fn publish(&mut self) {
        let event = self.service.publish(&self.endpoints, 1).await.remove(0);
        self.committed.insert(event.to_string(), Instant::now());
    }

    /// Times from the commit of an event to its arrival at the 99 responding endpoints, in milliseconds: the median and
    /// the 99th percentile.
    async fn finish(self) -> (u128, u128) {
        self.receiver.wait_for(99 * (self.committed.len() + 1), LONG).await;
        self.worker.kill().await;
        let arrival = |one: &receiver::Seen| {
            let body: serde_json::Value = serde_json::from_str(&one.body).expect("JSON");
            let committed = self.committed.get(body["id"].as_str().expect("an id"))?;
            Some(one.at.saturating_duration_since(*committed).as_millis())
        };
        let mut times: Vec<u128> = self.receiver.seen().iter().filter_map(arrival).collect();
        times.sort_unstable();
        assert_eq!(times.len(), 99 * self.committed.len(), "each arrives once");
        (times[times.len() / 2], times[times.len() * 99 / 100])
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_hanging_receiver_does_not_delay_the_ninety_nine_others() {
    /// Tolerated difference between the two services on a busy machine, in milliseconds. If the hanging receiver
    /// delayed the other receivers, the difference would be five seconds.
    const SLACK_MS: u128 = 60;
    // Both services run at the same time and alternate, so that the noise of the machine affects both.
    let (mut calm, mut troubled) = (Side::start(false).await, Side::start(true).await);
    for _ in 0..12 {
        for side in [&mut calm, &mut troubled] {
            side.publish().await;
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
    let (without, with) = (calm.finish().await, troubled.finish().await);
    println!("median and p99 in ms: {without:?} without a hanging receiver, {with:?} with one");
    assert!(
        with.1 <= without.1 * 12 / 10 + SLACK_MS,
        "{with:?} ms instead of {without:?} ms"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_hanging_receivers_leave_slots_for_the_others() {
    let service = Service::start().await;
    let receiver = Receiver::start().await;
    for number in 0..12 {
        let hanging = service.endpoint(&receiver.url(&format!("hang/{number}"))).await;
        service.publish(&[hanging], 100).await;
    }
    let worker = work(&service.ctx, USUAL);
    tokio::time::sleep(Duration::from_millis(500)).await;
    let good = service.endpoint(&receiver.url("ok")).await;
    let published = Instant::now();
    service.publish(&[good], 50).await;
    receiver.wait_for(50, Duration::from_secs(2)).await;
    println!(
        "50 deliveries with 12 hanging receivers: {} ms",
        published.elapsed().as_millis()
    );
    worker.kill().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_slow_receivers_of_one_owner_do_not_hold_up_another_owner() {
    let greedy = Service::start().await;
    let modest = greedy.neighbour().await;
    let receiver = Receiver::start().await;
    for endpoint in spread(&greedy, &receiver, "late", 20).await {
        greedy.publish(&[endpoint], 200).await;
    }
    let worker = work(&greedy.ctx, USUAL);
    receiver.wait_for(300, LONG).await;
    let endpoint = modest.endpoint(&receiver.url("ok")).await;
    let published = Instant::now();
    modest.publish(&[endpoint], 15).await;
    let own = || receiver.seen().into_iter().filter(|one| one.path == "/ok").count();
    while own() < 15 && published.elapsed() < LONG {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let (waited_ms, left) = (published.elapsed().as_millis(), greedy.count("state = 'queued'").await);
    worker.kill().await;
    println!("15 deliveries with 20 slow receivers: {waited_ms} ms, {left} of 4,000 left");
    assert_eq!(own(), 15);
    assert!(left > 1_000, "the backlog must outlast the deliveries: {left} are left");
    assert!(waited_ms < 1_500, "{waited_ms} ms");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_unresponsive_endpoints_of_one_owner_leave_slots_for_another() {
    let greedy = Service::start().await;
    let modest = greedy.neighbour().await;
    let receiver = Receiver::start().await;
    for endpoint in spread(&greedy, &receiver, "slow", 120).await {
        greedy.publish(&[endpoint], 20).await;
    }
    let worker = work(&greedy.ctx, USUAL);
    receiver.wait_for(224, LONG).await;
    let endpoint = modest.endpoint(&receiver.url("ok")).await;
    let events = modest.publish(std::slice::from_ref(&endpoint), 1).await;
    modest.wait_for_tries(&events[0], &endpoint, 1, LONG).await;
    let ended = greedy
        .count("coalesce(delivery_queue.retry_count, deliveries.retry_count) > 0")
        .await;
    let begun = receiver.seen().len();
    worker.kill().await;
    // The new owner's delivery was sent before any delivery of the greedy owner ended, although the greedy owner has
    // enough deliveries for every slot.
    assert_eq!((ended, begun), (0, 225));
}

async fn spread(service: &Service, receiver: &Receiver, mode: &str, count: usize) -> Vec<EndpointId> {
    let mut endpoints = Vec::new();
    for number in 0..count {
        endpoints.push(service.endpoint(&receiver.url(&format!("{mode}/{number}"))).await);
    }
    endpoints
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_workers_share_two_thousand_events_without_a_repetition() {
    let service = Service::start().await;
    let receiver = Receiver::start().await;
    let other = service.instance().await;
    for endpoint in spread(&service, &receiver, "ok", 10).await {
        service.publish(&[endpoint], 200).await;
    }
    let started = Instant::now();
    let workers = [work(&service.ctx, USUAL), work(&other, USUAL)];
    service.wait_until_done(LONG).await;
    println!("2,000 deliveries by two workers: {} ms", started.elapsed().as_millis());
    for worker in workers {
        worker.stop().await;
    }
    let times = receiver.times();
    assert_eq!(times.len(), 2_000);
    let repeated: Vec<_> = times.iter().filter(|(_, count)| **count != 1).collect();
    let seen = receiver.seen();
    let copies: Vec<_> = seen
        .iter()
        .filter(|one| repeated.iter().any(|(id, _)| **id == one.delivery))
        .map(|one| (&one.delivery, &one.retry_count, one.at - started))
        .collect();
    assert!(copies.is_empty(), "sent again: {copies:?}");
    assert_eq!(service.count("state = 'delivered'").await, 2_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deliveries_of_a_killed_worker_are_resumed_when_its_leases_expire() {
    let service = Service::start().await;
    let receiver = Receiver::start().await;
    let other = service.instance().await;
    for endpoint in spread(&service, &receiver, "later", 10).await {
        service.publish(&[endpoint], 100).await;
    }
    let killed = work(&service.ctx, USUAL);
    receiver.wait_for(200, LONG).await;
    killed.kill().await;
    let left_behind = service.count("state = 'queued' AND lease_token IS NOT NULL").await;
    assert!(left_behind > 0, "the worker held deliveries when it was killed");
    let survivor = work(&other, USUAL);
    let end = Instant::now() + LONG;
    // Waits until the surviving worker has recorded its own deliveries. Otherwise the clock jump would also end the
    // leases of that worker.
    while service.count("state = 'queued'").await > left_behind {
        assert!(Instant::now() < end, "the remaining deliveries are not sent");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    service.clock.jump(15_000);
    service.wait_until_done(Duration::from_secs(10)).await;
    survivor.stop().await;
    assert_eq!(service.count("state = 'delivered'").await, 1_000, "no delivery is lost");
    let times = receiver.times();
    assert_eq!(times.len(), 1_000);
    let repeated: HashSet<&String> = times
        .iter()
        .filter(|(_, count)| **count > 1)
        .map(|(id, _)| id)
        .collect();
    println!("killed with {left_behind} held, {} were sent twice", repeated.len());
    assert!(repeated.len() <= left_behind, "only held deliveries can be sent twice");
    let seen = receiver.seen();
    for id in repeated {
        let copies: HashSet<_> = seen
            .iter()
            .filter(|one| one.delivery == *id)
            .map(|one| (&one.body, &one.signature, &one.retry_count))
            .collect();
        assert_eq!(
            copies.len(),
            1,
            "{id} is repeated with the same bytes and the same retry count"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_under_load_finishes_or_releases_every_delivery() {
    let service = Service::start().await;
    let receiver = Receiver::start().await;
    for endpoint in spread(&service, &receiver, "later", 5).await {
        service.publish(&[endpoint], 200).await;
    }
    let worker = work(&service.ctx, USUAL);
    receiver.wait_for(150, LONG).await;
    let stopping = Instant::now();
    worker.stop().await;
    let stop_ms = stopping.elapsed().as_millis();
    let delivered = service.count("state = 'delivered'").await;
    println!("stopped in {stop_ms} ms with {delivered} of 1,000 delivered");
    assert!(delivered < 1_000, "the stop came under load");
    assert!(stop_ms < 5_500, "{stop_ms} ms");
    assert_eq!(receiver.seen().len(), delivered, "every sent delivery is recorded");
    assert_eq!(
        service.count("state = 'queued' AND lease_token IS NULL").await,
        1_000 - delivered,
        "the remaining deliveries are released"
    );
    let next = work(&service.ctx, USUAL);
    service.wait_until_done(LONG).await;
    next.stop().await;
    let times = receiver.times();
    assert_eq!(times.len(), 1_000);
    assert!(times.values().all(|count| *count == 1));
}

/// How long a test waits before it asserts that the worker did not act.
const A_MOMENT: Duration = Duration::from_millis(400);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unreachable_receiver_gets_attempts_after_0_1_6_and_21_seconds() {
    let service = Service::start_with_still_clock().await;
    let endpoint = service.endpoint("http://127.0.0.1:1/down").await;
    let event = service.publish(std::slice::from_ref(&endpoint), 1).await.remove(0);
    let worker = work(&service.ctx, USUAL);
    service.wait_for_tries(&event, &endpoint, 1, LONG).await;
    for (tries, pause_ms) in [(1, 1_000), (2, 5_000), (3, 15_000)] {
        service.clock.jump(pause_ms - 1);
        tokio::time::sleep(A_MOMENT).await;
        assert_eq!(
            service.delivery(&event, &endpoint).await.tries.len(),
            tries,
            "not a millisecond early"
        );
        service.clock.jump(1);
        service.wait_for_tries(&event, &endpoint, tries + 1, LONG).await;
    }
    service.clock.jump(3_600_000);
    tokio::time::sleep(A_MOMENT).await;
    worker.stop().await;
    let delivery = service.delivery(&event, &endpoint).await;
    assert_eq!((delivery.state, delivery.tries.len()), (DeliveryState::Failed, 4));
    let start = delivery.tries[0].outcome.started_at;
    let tried_ms = delivery
        .tries
        .iter()
        .map(|tried| (tried.outcome.started_at - start).num_milliseconds());
    assert_eq!(tried_ms.collect::<Vec<_>>(), [0, 1_000, 6_000, 21_000]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tries_that_end_all_the_time_delay_no_retry() {
    let service = Service::start().await;
    let receiver = Receiver::start().await;
    let down = service.endpoint(&receiver.url("500")).await;
    let mut endpoints = vec![down.clone()];
    for number in 1..=60 {
        let after = format!("after-{}", number * 50);
        endpoints.push(service.endpoint(&receiver.url(&after)).await);
    }
    let worker = work(&service.ctx, USUAL);
    let event = service.publish(&endpoints, 1).await.remove(0);
    service.wait_for_tries(&event, &down, 2, LONG).await;
    worker.stop().await;
    let delivery = service.delivery(&event, &down).await;
    let [first, second] = [0, 1].map(|number| delivery.tries[number].outcome.started_at);
    let late_ms = (second - first).num_milliseconds() - 1_000;
    assert!((0..600).contains(&late_ms), "{late_ms} ms late");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silently_dead_connection_costs_a_delivery_one_attempt() {
    let service = Service::start_with_still_clock().await;
    let receiver = Receiver::start().await;
    let endpoint = service.endpoint(&receiver.url("forgets")).await;
    service.publish(std::slice::from_ref(&endpoint), 16).await;
    let worker = work(&service.ctx, USUAL);
    service.wait_until_done(LONG).await;
    let event = service.publish(std::slice::from_ref(&endpoint), 1).await.remove(0);
    for (tries, pause_ms) in [(1, 1_000), (2, 5_000), (3, 15_000)] {
        service.wait_for_tries(&event, &endpoint, tries, LONG).await;
        if service.delivery(&event, &endpoint).await.state == DeliveryState::Delivered {
            break;
        }
        service.clock.jump(pause_ms);
    }
    service.wait_until_done(LONG).await;
    worker.stop().await;
    let delivery = service.delivery(&event, &endpoint).await;
    assert_eq!((delivery.state, delivery.tries.len()), (DeliveryState::Delivered, 2));
}

const TWO_HOURS_MS: i64 = 2 * 3_600_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_jump_loses_no_attempt_and_delays_no_new_event() {
    for jump_ms in [TWO_HOURS_MS, -TWO_HOURS_MS] {
        let service = Service::start_with_still_clock().await;
        let receiver = Receiver::start().await;
        let down = service.endpoint(&receiver.url("500")).await;
        let event = service.publish(std::slice::from_ref(&down), 1).await.remove(0);
        let worker = work(&service.ctx, USUAL);
        service.wait_for_tries(&event, &down, 1, LONG).await;
        service.clock.jump(jump_ms);
        // An event published after the jump is sent at once, and waiting deliveries wait for as long as before.
        let good = service.endpoint(&receiver.url("ok")).await;
        service.publish(std::slice::from_ref(&good), 1).await;
        tokio::time::sleep(A_MOMENT).await;
        assert_eq!(service.count("state = 'delivered'").await, 1);
        let tries = service.delivery(&event, &down).await.tries.len();
        assert_eq!(tries, 1, "a jump makes no attempt early");
        for (tries, pause_ms) in [(2, 1_000), (3, 5_000), (4, 15_000)] {
            service.clock.jump(pause_ms);
            service.wait_for_tries(&event, &down, tries, LONG).await;
        }
        worker.stop().await;
        let delivery = service.delivery(&event, &down).await;
        assert_eq!((delivery.state, delivery.tries.len()), (DeliveryState::Failed, 4));
        let seen = receiver.seen();
        let failing = seen.iter().filter(|one| one.path == "/500");
        let counts: Vec<&str> = failing.map(|one| one.retry_count.as_str()).collect();
        assert_eq!(counts, ["0", "1", "2", "3"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_events_after_a_clock_jump_do_not_delay_records() {
    let service = Service::start().await;
    let receiver = Receiver::start().await;
    let endpoint = service.endpoint(&receiver.url("ok")).await;
    let worker = work(&service.ctx, USUAL);
    service.publish(std::slice::from_ref(&endpoint), 1).await;
    service.wait_until_done(LONG).await;
    service.clock.jump(TWO_HOURS_MS);
    // The worker always has a reason to claim, as when events arrive all the time.
    let due = service.ctx.due.clone();
    let end = Instant::now() + LONG;
    let notices = tokio::spawn(async move {
        while Instant::now() < end {
            due.notify_one();
            tokio::task::yield_now().await;
        }
    });
    let event = service.publish(std::slice::from_ref(&endpoint), 1).await.remove(0);
    // For ten seconds after a jump, claims and records do not overlap.
    service
        .wait_for_tries(&event, &endpoint, 1, Duration::from_secs(5))
        .await;
    notices.abort();
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_that_a_jump_ends_repeats_the_delivery_and_records_it_once() {
    let service = Service::start().await;
    let receiver = Receiver::start().await;
    let endpoint = service.endpoint(&receiver.url("later")).await;
    let event = service.publish(std::slice::from_ref(&endpoint), 1).await.remove(0);
    let worker = work(&service.ctx, USUAL);
    receiver.wait_for(1, LONG).await;
    service.clock.jump(TWO_HOURS_MS);
    service.ctx.due.notify_one();
    service.wait_until_done(LONG).await;
    worker.stop().await;
    let seen = receiver.seen();
    assert!(seen.len() <= 2);
    assert!(
        seen.iter()
            .all(|one| one.retry_count == "0" && one.delivery == seen[0].delivery)
    );
    let delivery = service.delivery(&event, &endpoint).await;
    assert_eq!((delivery.state, delivery.tries.len()), (DeliveryState::Delivered, 1));
}
