//! The service dies while recurring payments and requests are due, as a single process and as one of two instances.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use devnet::RELAYER_INDEX;
use fastrand::Rng;
use xtask::machine::command;
use xtask::service::client::{Call, Client};

use crate::asked::{Asked, PARENTS, SCHEDULES, ask_for_all};
use crate::calendar::{Calendar, DAY_S};
use crate::clock::ShownClock;
use crate::deaths::{Deaths, End, POINTS, is_of_leader, launch};
use crate::fault::{Database, Fault};
use crate::instances::leads;
use crate::plan::{Plan, QUIET_TIME};
use crate::report::Row;
use crate::service::Service;
use crate::settled::{Ended, settle};
use crate::stage::{POLL, Stage, wait_for};

/// Real time in milliseconds between two steps of the clock by a day.
const DAY_MS: std::ops::RangeInclusive<u64> = 10..=120;

/// How long a process runs after the last step of the clock before it dies at a random moment, in milliseconds.
const LIFE_MS: std::ops::RangeInclusive<u64> = 0..=1_500;

/// Time limit for a process to reach its crash point after the last step of the clock.
const POINT_TIMEOUT: Duration = Duration::from_secs(4);

/// Time limit for one of two instances to reach its crash point after the last step of the clock.
const TWIN_TIMEOUT: Duration = Duration::from_secs(2);

/// Additional time for an instance, because it reads the time of the database server only every five seconds.
const TIME_LAG: Duration = Duration::from_secs(5);

/// How long a short run waits at its end for deliveries that are sent again. The clock was advanced, which ends the
/// leases of dead processes, so less time is needed than in other runs.
const SHORT_QUIET: Duration = Duration::from_secs(3);

/// Processes die while recurring payments and requests are due: a single service, or two instances that alternate as
/// leader.
pub(crate) fn kills(plan: &Plan, database: Database) -> Result<Row> {
    let clock = ShownClock::new()?;
    let environment = clock.environment();
    let mut stage = match database {
        Database::Sqlite => Stage::open_with(plan, Fault::RecurringKills, database, false, &environment)?,
        Database::Postgres => Stage::open_api(plan, Fault::RecurringKills, &environment)?,
    };
    let mut calendar = Calendar::new(clock, &stage);
    let mut variables = environment;
    variables.extend(relaying(&stage)?);
    for (name, value) in &variables {
        stage.machines.service.set_variable(name, value.clone());
    }
    stage.machines.service.kill()?;
    stage.machines.service.start()?;
    stage.register("late")?;
    let asked = ask_for_all(&stage, &calendar, plan.recurring_payments)?;
    let mut rng = Rng::with_seed(plan.seed);
    let mut deaths = Deaths::new(&mut rng);
    let mut workers = Vec::new();
    let wanted = match database {
        Database::Sqlite => {
            alone(plan, &mut stage, &mut calendar, &asked, &mut deaths, &mut rng)?;
            plan.recurring_kills
        }
        Database::Postgres => {
            for name in ["one", "two"] {
                let mut worker = stage.worker(name)?;
                for (name, value) in &variables {
                    worker.set_variable(name, value.clone());
                }
                workers.push(worker);
            }
            twins(plan, &mut workers, &mut calendar, &asked, &mut deaths, &mut rng)?;
            plan.recurring_twin_kills
        }
    };
    let quiet = if plan.is_short { SHORT_QUIET } else { QUIET_TIME };
    let ended = settle(&stage, &workers, &mut calendar, &asked, quiet)?;
    Ok(judged(plan, database, wanted, &deaths, &ended))
}

/// Settings for a service that executes recurring payments and stays ready although the time of its chain jumps by
/// days.
fn relaying(stage: &Stage) -> Result<[(&'static str, String); 2]> {
    const WEEK_S: u64 = 7 * DAY_S;
    let relayer = stage.chain.accounts().get(RELAYER_INDEX).context("no relayer")?;
    Ok([
        ("PRS_RELAYER__PRIVATE_KEY", relayer.private_key.to_string()),
        ("PRS_HEALTH__CHAIN_STALE_S", WEEK_S.to_string()),
    ])
}

fn may_go_on() -> Result<()> {
    if command::interrupted() {
        bail!("interrupted");
    }
    Ok(())
}

/// Advances the clock day by day up to this day, while processes are running.
fn pass_until(day: u64, calendar: &mut Calendar, rng: &mut Rng, mut is_dead: impl FnMut() -> bool) -> Result<()> {
    while calendar.days() < day {
        may_go_on()?;
        calendar.forward(DAY_S)?;
        if !is_dead() {
            thread::sleep(Duration::from_millis(rng.u64(DAY_MS)));
        }
    }
    Ok(())
}

/// A single service dies repeatedly, at crash points and at random moments. Some days pass while the service runs,
/// others while it is dead.
fn alone(
    plan: &Plan,
    stage: &mut Stage,
    calendar: &mut Calendar,
    asked: &Asked,
    deaths: &mut Deaths,
    rng: &mut Rng,
) -> Result<()> {
    let service = &mut stage.machines.service;
    service.kill()?;
    while deaths.count < plan.recurring_kills {
        may_go_on()?;
        let day = asked.days * (deaths.count + 1) / plan.recurring_kills;
        let end = deaths.draw(rng);
        launch(service, end)?;
        if rng.bool() {
            ready_or_dead(service)?;
        }
        pass_until(day, calendar, rng, || service.has_ended())?;
        let patience = match end {
            Some(_) => POINT_TIMEOUT,
            None => Duration::from_millis(rng.u64(LIFE_MS)),
        };
        let begun = Instant::now();
        while !service.has_ended() && begun.elapsed() < patience {
            may_go_on()?;
            thread::sleep(POLL);
        }
        let is_reached = service.has_ended();
        if is_reached {
            service.bury()?
        } else {
            service.kill()?
        }
        deaths.note(end, is_reached);
        calendar.agree()?;
    }
    // Another day passes, so that the leases of the dead process expire.
    calendar.forward(DAY_S)?;
    service.start().map(drop)
}

fn ready_or_dead(service: &mut Service) -> Result<()> {
    let health = Client::new(service.base_url(), Vec::new());
    wait_for("readiness or death", || {
        let page = health.call_within(Duration::from_secs(1), "/health/ready", &Call::Get);
        let is_ready = page.is_ok_and(|page| page.status == 200);
        Ok((is_ready || service.has_ended()).then_some(()))
    })
}

/// Two workers share a database. The leader of the network dies repeatedly, and the other worker also dies if it
/// reaches its crash point first.
fn twins(
    plan: &Plan,
    workers: &mut [Service],
    calendar: &mut Calendar,
    asked: &Asked,
    deaths: &mut Deaths,
    rng: &mut Rng,
) -> Result<()> {
    let mut ends: Vec<End> = Vec::new();
    for worker in workers.iter_mut() {
        let end = deaths.draw(rng);
        launch(worker, end)?;
        ready_or_dead(worker)?;
        ends.push(end);
    }
    while deaths.count < plan.recurring_twin_kills {
        let leader = leader_or_death(workers)?;
        let day = asked.days * (deaths.count + 1) / plan.recurring_twin_kills;
        pass_until(day, calendar, rng, || workers.iter_mut().any(Service::has_ended))?;
        let patience = match leader.map(|leader| ends[leader]) {
            Some(Some(_)) => TIME_LAG + TWIN_TIMEOUT,
            Some(None) => TIME_LAG + Duration::from_millis(rng.u64(LIFE_MS)),
            None => Duration::ZERO,
        };
        let begun = Instant::now();
        let dead = loop {
            may_go_on()?;
            if let Some(dead) = workers.iter_mut().position(Service::has_ended) {
                workers[dead].bury()?;
                deaths.note(ends[dead], true);
                deaths.leaders += u64::from(ends[dead].is_some_and(is_of_leader));
                break dead;
            }
            if begun.elapsed() > patience {
                let leader = workers.iter().position(leads).or(leader).unwrap_or_default();
                workers[leader].kill()?;
                deaths.note(ends[leader], false);
                deaths.leaders += 1;
                break leader;
            }
            thread::sleep(POLL);
        };
        // Another day passes, so that the lease of the dead worker expires. The other worker takes over before the dead
        // worker is restarted.
        calendar.forward(DAY_S)?;
        leader_or_death(&mut workers[1 - dead..=1 - dead])?;
        ends[dead] = deaths.draw(rng);
        launch(&mut workers[dead], ends[dead])?;
        // A database server whose clock jumps may time out statements, and a process that is starting then gives up.
        ready_or_dead(&mut workers[dead])?;
    }
    for worker in workers.iter_mut() {
        // The worker may have died at its crash point by now.
        if !worker.has_ended() {
            worker.kill()?;
        }
    }
    calendar.forward(DAY_S)?;
    for worker in workers {
        worker.start()?;
    }
    Ok(())
}

/// Index of the worker that leads the network; `None` if a worker died before any of them led.
fn leader_or_death(workers: &mut [Service]) -> Result<Option<usize>> {
    wait_for("a leader or a death", || {
        let leader = workers.iter().position(leads);
        let is_dead = workers.iter_mut().any(Service::has_ended);
        Ok((leader.is_some() || is_dead).then_some(leader))
    })
}

fn judged(plan: &Plan, database: Database, wanted: u64, deaths: &Deaths, ended: &Ended) -> Row {
    let Ended {
        verdict,
        tally,
        relayer,
    } = ended;
    let mut row = Row::of(Fault::RecurringKills, database, wanted, verdict);
    row.acknowledged = tally.payments_due + tally.requests_due;
    row.lost += tally.lost();
    row.doubled += tally.doubled();
    row.check(tally.failures == 0, || {
        format!("{} payments were reported as failed", tally.failures)
    });
    row.check(tally.nonces_lost == 0, || {
        format!("{} nonces of the relayer are lost", tally.nonces_lost)
    });
    row.check((tally.lost(), tally.doubled()) == (0, 0), || format!("{tally:?}"));
    let never: Vec<&str> = POINTS
        .into_iter()
        .filter(|point| !deaths.reached.contains(point))
        .collect();
    let must_reach_all = database == Database::Sqlite && !plan.is_short;
    row.check(never.is_empty() || !must_reach_all, || {
        format!("never reached: {}", never.join(", "))
    });
    let of_whom = match database {
        Database::Sqlite => String::new(),
        Database::Postgres => format!(", {} of the leader", deaths.leaders),
    };
    row.note(&format!(
        "{} deaths{of_whom}, {} of {} points reached; {} payments of {SCHEDULES} schedules by {} transactions, {} requests of {PARENTS}",
        deaths.count,
        deaths.reached.len(),
        POINTS.len(),
        tally.payments_due - tally.payments_missing,
        relayer.nonces.len(),
        tally.requests_due - tally.requests_missing,
    ));
    row
}
