//! Faults of workers and of the database. One of two workers dies, the database dies or becomes unresponsive, commits
//! are cut off, and responses arrive late.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use fastrand::Rng;
use serde_json::json;
use xtask::service::client::{Call, Client};

use crate::conversation::Statement;
use crate::fault::{Database, Fault};
use crate::link::Fault as Silence;
use crate::plan::{Plan, QUIET_TIME};
use crate::report::Row;
use crate::stage::{POLL, Stage, wait_for};
use crate::verdict::Records;

/// Number of endpoints of the run with two workers: each event gets this number of deliveries.
const ENDPOINTS: usize = 8;

/// How long both workers run before one of them is killed.
const BEFORE_DEATH: Duration = Duration::from_millis(150);

/// How soon the surviving worker must have finished the work of the killed worker. Source: rules D.3.
const TAKEN_OVER_MAX: Duration = Duration::from_secs(20);

/// Time limit for a response that reports the database as unavailable. Source: rules D.4.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// How soon the service must work again, without help, once the fault has ended.
const RECOVERY_MAX: Duration = Duration::from_secs(5);

/// How long the link is unresponsive.
const BLACKHOLE: Duration = Duration::from_secs(10);

/// How long the database is down.
const DOWN_MS: std::ops::RangeInclusive<u64> = 500..=2_500;

/// Pause between two polls of the service.
const PROBE_PAUSE: Duration = Duration::from_millis(20);

/// Time limit until a commit occurs at which the proxy can break a connection.
const CUT_TIMEOUT: Duration = Duration::from_secs(10);

/// Statements whose responses are late, one after another.
const LATE_STATEMENTS: [Statement; 3] = [Statement::Begin, Statement::Insert, Statement::Commit];

/// How long the proxy delays responses. The next constant is how long it delays none afterwards.
const LATE: Duration = Duration::from_secs(4);
const BETWEEN_LATE: Duration = Duration::from_secs(1);

/// Number of threads that create requests while responses are late. The next constant is the pause of each thread
/// between two requests. A thread that sends idempotency keys waits for late responses most of the time.
const LATE_WRITERS: usize = 8;
const LATE_PACE: Duration = Duration::from_millis(250);

/// Maximum number of created requests that no payer has paid yet, while responses are late.
const LATE_WAITING_MAX: usize = 1_000;

/// Two processes share the deliveries of one database, and one of them is killed.
pub(crate) fn workers(plan: &Plan) -> Result<Row> {
    let mut stage = Stage::open(plan, Fault::WorkerKills, Database::Postgres)?;
    for number in 0..ENDPOINTS {
        stage.register(&format!("late?{number}"))?;
    }
    let mut twin = stage.worker("twin")?;
    twin.start()?;
    let count = if plan.is_short { 40 } else { 200 };
    let mut records = Records::default();
    stage.make_events(&mut records, count)?;
    let first_paths = "late?0";
    let verdict = stage.settle(&mut records, first_paths, Duration::from_secs(2))?;
    let total = records.paid.len() * ENDPOINTS;
    let mut row = Row::of(Fault::WorkerKills, Database::Postgres, plan.worker_kills, &verdict);

    // Without a fault, every delivery arrives once, and once more for each replay.
    wait_for("all deliveries", || {
        Ok((stage.machines.sink.count() >= total).then_some(()))
    })?;
    for _ in 0..plan.quiet_replays {
        let before = stage.machines.sink.count();
        stage.replay(false)?;
        wait_for("all replayed deliveries", || {
            Ok((stage.machines.sink.count() >= before + total).then_some(()))
        })?;
        // A replay skips deliveries that still wait, so the last attempts must be recorded before the next replay.
        drained(&stage)?;
    }
    thread::sleep(Duration::from_secs(1));
    let expected = total * (1 + usize::try_from(plan.quiet_replays)?);
    let quiet = stage.machines.sink.count();
    row.check(quiet == expected, || {
        format!("{quiet} deliveries arrived without a fault instead of {expected}")
    });

    let mut longest = Duration::ZERO;
    let mut repeats = 0;
    for _ in 0..plan.worker_kills {
        let before = stage.machines.sink.count();
        stage.replay(false)?;
        thread::sleep(BEFORE_DEATH);
        twin.kill()?;
        let killed = Instant::now();
        let first_arrivals = wait_for("the deliveries that the dead worker had claimed", || {
            let mut first: HashMap<String, Instant> = HashMap::new();
            for arrival in stage.machines.sink.arrivals_after(before) {
                let id = arrival.header("x-service-delivery").to_owned();
                first.entry(id).or_insert(arrival.delivery.arrived);
            }
            Ok((first.len() == total).then_some(first))
        })?;
        let last = first_arrivals.values().max().copied().unwrap_or(killed);
        longest = longest.max(last.saturating_duration_since(killed));
        repeats += stage.machines.sink.count() - before - total;
        twin.start()?;
        // The lease of the killed worker may expire for a delivery that has already arrived, which is then sent again.
        // The next round must not count this attempt.
        drained(&stage)?;
    }
    row.check(longest <= TAKEN_OVER_MAX, || {
        format!("the dead worker's deliveries took {:.1} s", longest.as_secs_f64())
    });
    let bodies = distinct_bodies(&stage);
    row.changed += bodies;
    row.note(&format!(
        "{quiet} deliveries by two workers without a repeat; after a death the rest arrived within {:.1} s, {repeats} repeated",
        longest.as_secs_f64()
    ));
    Ok(row)
}

/// Waits until no delivery waits for an attempt.
fn drained(stage: &Stage) -> Result<()> {
    wait_for("an empty queue", || {
        let queued = stage.get("/v2/deliveries?state=queued&limit=1")?;
        Ok(queued["deliveries"].as_array().is_some_and(Vec::is_empty).then_some(()))
    })
}

/// Deliveries that arrived with more than one body.
fn distinct_bodies(stage: &Stage) -> usize {
    let mut bodies: HashMap<String, HashSet<Vec<u8>>> = HashMap::new();
    for arrival in stage.machines.sink.arrivals() {
        let id = arrival.header("x-service-delivery").to_owned();
        bodies.entry(id).or_default().insert(arrival.delivery.body);
    }
    bodies.values().filter(|bodies| bodies.len() > 1).count()
}

/// The responses to a caller that polls without a pause.
#[derive(Debug)]
struct Seen {
    /// The status that counts as a successful response.
    good: u16,
    /// For each response, when it arrived, how long it took, and its status; no status means that there was no
    /// response.
    answers: Vec<(Instant, Duration, Option<u16>)>,
}

impl Seen {
    /// The slowest response.
    fn slowest(&self) -> Duration {
        self.answers.iter().map(|(_, took, _)| *took).max().unwrap_or_default()
    }

    /// Number of responses that were neither successful nor 503.
    fn strange(&self) -> usize {
        let is_strange = |status: &Option<u16>| *status != Some(self.good) && *status != Some(503);
        self.answers.iter().filter(|(.., status)| is_strange(status)).count()
    }

    fn unavailable(&self) -> usize {
        self.answers.iter().filter(|(.., status)| *status == Some(503)).count()
    }

    /// Time from this moment to the arrival of the first successful response.
    fn recovery(&self, since: Instant) -> Option<Duration> {
        let good = self
            .answers
            .iter()
            .find(|(at, took, status)| *at - *took >= since && *status == Some(self.good));
        good.map(|(at, ..)| *at - since)
    }
}

/// Repeats one call until the run ends, and records the responses.
fn probe(client: &Client, is_over: &AtomicBool, (path, call): (&str, &Call<'_>), good: u16) -> Seen {
    let mut answers = Vec::new();
    while !is_over.load(Ordering::SeqCst) {
        let begun = Instant::now();
        let answer = client.call(path, call).ok().map(|answer| answer.status);
        answers.push((Instant::now(), begun.elapsed(), answer));
        thread::sleep(PROBE_PAUSE);
    }
    Seen { good, answers }
}

/// Sends reads until the run ends, and records the responses.
fn probe_reads(client: &Client, is_over: &AtomicBool) -> Seen {
    let path = format!("/v2/request?walletAddress={}&limit=1", crate::load::payee(0));
    probe(client, is_over, (&path, &Call::Get), 200)
}

/// Creates requests until the run is over, for a payee that the load does not use.
fn probe_writes(client: &Client, is_over: &AtomicBool) -> Seen {
    let body = json!({
        "payee": crate::load::payee(9_999), "amount": "1", "invoiceCurrency": "FAU-sepolia", "paymentCurrency": "FAU-sepolia",
    });
    probe(client, is_over, ("/v2/request", &Call::Post(&body)), 201)
}

/// PostgreSQL is killed and restarted, becomes unresponsive and recovers, and is replaced without closing its
/// connections.
pub(crate) fn database(plan: &Plan) -> Result<Row> {
    let mut stage = Stage::open_wired(plan, Fault::DatabaseOutages)?;
    stage.register("late")?;
    let (reader, writer) = (stage.client.again(), stage.client.again());
    let is_over = AtomicBool::new(false);
    let rounds = plan.database_kills;
    let (seen, ended) = thread::scope(|scope| {
        let reading = scope.spawn(|| probe_reads(&reader, &is_over));
        let writing = scope.spawn(|| probe_writes(&writer, &is_over));
        let ended = stage.under_load(|machines, pressure| {
            let mut rng = Rng::with_seed(plan.seed);
            let (Some(postgres), Some(link)) = (&machines.postgres, &machines.link) else {
                anyhow::bail!("PostgreSQL is not running");
            };
            let mut ends = Vec::new();
            for _ in 0..rounds {
                pressure.pause(Duration::from_millis(1_000))?;
                postgres.kill()?;
                pressure.pause(Duration::from_millis(rng.u64(DOWN_MS)))?;
                postgres.restart()?;
                ends.push(("a restart", Instant::now()));
                pressure.next_round();
            }
            pressure.pause(Duration::from_millis(1_000))?;
            link.set(Silence::Blackhole);
            pressure.pause(BLACKHOLE)?;
            link.set(Silence::None);
            ends.push(("the unresponsive period", Instant::now()));
            pressure.next_round();
            pressure.pause(Duration::from_secs(3))?;
            link.set(Silence::Replaced);
            ends.push(("the replacement", Instant::now()));
            pressure.next_round();
            pressure.pause(RECOVERY_MAX + Duration::from_secs(1))?;
            Ok(ends)
        });
        is_over.store(true, Ordering::SeqCst);
        (reading.join().and_then(|read| Ok([read, writing.join()?])), ended)
    });
    let seen = seen.map_err(|_| anyhow::anyhow!("a probe panicked"))?;
    let (ends, mut records) = ended?;
    let verdict = stage.settle(&mut records, "late", QUIET_TIME)?;
    let mut row = Row::of(Fault::DatabaseOutages, Database::Postgres, rounds + 2, &verdict);
    for (seen, name) in seen.iter().zip(["reads", "writes"]) {
        let slowest = seen.slowest();
        row.check(slowest <= ANSWER_MAX, || {
            format!("one of the {name} took {} ms", slowest.as_millis())
        });
        row.check(seen.strange() == 0, || {
            format!("{} {name} got neither {} nor 503", seen.strange(), seen.good)
        });
        row.check(seen.unavailable() > 0, || format!("no {name} noticed the outages"));
        let mut longest = Duration::ZERO;
        for (what, since) in &ends {
            match seen.recovery(*since) {
                Some(recovery) => {
                    longest = longest.max(recovery);
                    row.check(recovery <= RECOVERY_MAX, || {
                        format!("{name} recovered {} ms after the end of {what}", recovery.as_millis())
                    });
                }
                None => row.check(false, || format!("no {name} recovered after {what}")),
            }
        }
        row.note(&format!(
            "{} of the {name} got 503, slowest {} ms, recovery {} ms at most",
            seen.unavailable(),
            slowest.as_millis(),
            longest.as_millis()
        ));
    }
    Ok(row)
}

/// The connection of the service breaks at a commit, before or after the database executed the commit.
pub(crate) fn cuts(plan: &Plan) -> Result<Row> {
    let mut stage = Stage::open_wired(plan, Fault::CutConnections)?;
    stage.register("late")?;
    let (cuts, mut records) = stage.under_load(|machines, pressure| {
        let link = machines.link.as_ref().context("there is no link")?;
        let mut rng = Rng::with_seed(plan.seed);
        for round in 0..plan.cuts {
            let done = link.cuts();
            link.set(if rng.bool() {
                Silence::CutBeforeCommit
            } else {
                Silence::CutAfterCommit
            });
            let begun = Instant::now();
            while link.cuts() == done && begun.elapsed() < CUT_TIMEOUT {
                pressure.pause(Duration::from_millis(2))?;
            }
            // Leaves time for some creations to succeed. If none succeeded, nothing could be lost.
            pressure.pause(Duration::from_millis(rng.u64(5..=60)))?;
            if round % 10 == 0 {
                pressure.next_round();
            }
        }
        link.set(Silence::None);
        pressure.pause(POLL)?;
        Ok(link.cuts())
    })?;
    let verdict = stage.settle(&mut records, "late", QUIET_TIME)?;
    let mut row = Row::of(Fault::CutConnections, Database::Postgres, plan.cuts, &verdict);
    row.check(cuts == plan.cuts, || format!("only {cuts} cuts met a commit"));
    row.note(&format!(
        "{cuts} commits cut, {} creations repeated with their key",
        stage.client.repeated_creates()
    ));
    Ok(row)
}

/// Responses of PostgreSQL arrive late, each only on its own connection, while other connections continue.
pub(crate) fn late(plan: &Plan) -> Result<Row> {
    // Background work waits longer than the longest delay of a response, so it never abandons a statement.
    let (mut stage, mut worker) = Stage::open_wired_api(plan, Fault::LateAnswers)?;
    worker.start()?;
    stage.register("late")?;
    stage.writers = LATE_WRITERS;
    stage.pace = LATE_PACE;
    // Payers also wait for late responses. A high maximum of unpaid requests keeps them from delaying the threads that
    // create requests.
    stage.waiting_max = LATE_WAITING_MAX;
    let (held, mut records) = stage.under_load(|machines, pressure| {
        let link = machines.link.as_ref().context("there is no link")?;
        for _ in 0..plan.late_rounds {
            for statement in LATE_STATEMENTS {
                link.set(Silence::LateAnswers(statement));
                pressure.pause(LATE)?;
                link.set(Silence::None);
                pressure.next_round();
                // Now the service uses the connections again that it abandoned while responses were late.
                pressure.pause(BETWEEN_LATE)?;
            }
        }
        Ok(LATE_STATEMENTS.map(|one| link.held(one)))
    })?;
    let verdict = stage.settle(&mut records, "late", Duration::from_secs(2))?;
    let [begin, insert, commit] = held;
    let mut row = Row::of(Fault::LateAnswers, Database::Postgres, held.iter().sum(), &verdict);
    row.check(held.iter().all(|count| *count > 0), || {
        format!("responses held: {begin} to BEGIN, {insert} to INSERT, {commit} to COMMIT")
    });
    row.note(&format!(
        "held for 1 to 5 s: {begin} responses to BEGIN, {insert} to INSERT, {commit} to COMMIT; {} acknowledged without a key, {} creations without \
         key or response",
        records.acknowledged.iter().filter(|one| one.key.is_none()).count(),
        records.unanswered.len()
    ));
    Ok(row)
}
