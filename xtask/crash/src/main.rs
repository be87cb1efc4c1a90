//! `cargo xtask crash`: breaks the service and its dependencies, one after another, while requests are created and
//! paid. Afterwards nothing may be missing, doubled or changed.

mod asked;
mod bank;
mod broadcasts;
mod calendar;
mod client;
mod clock;
mod conversation;
mod deaths;
mod dues;
mod fault;
mod fiat;
mod instances;
mod kills;
mod link;
mod links;
mod load;
mod outages;
mod payers;
mod plan;
mod receivers;
mod recurring;
mod report;
mod rounds;
mod service;
mod settled;
mod sink;
mod stage;
mod verdict;

use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use anyhow::{Context, anyhow};
use clap::{Parser, ValueEnum};
use xtask::machine::failure::{Failure, Outcome};
use xtask::machine::{command, failure, packages, workspace};

use crate::fault::{Database, Databases, Fault, LANES, LAST_LANE};
use crate::plan::Plan;
use crate::report::Row;

/// Crash test: breaks the service and its dependencies while requests are created and paid, and counts the damage
#[derive(Debug, Parser)]
#[command(name = "cargo xtask crash")]
struct Options {
    /// Run only a few rounds of every fault, for continuous integration
    #[arg(long)]
    short: bool,
    /// Run only these faults
    #[arg(long = "fault", value_enum, ignore_case = true)]
    faults: Vec<Fault>,
    /// Number of kills at random moments on each database. Default: 40, or 4 in the short form
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    kills: Option<u64>,
    /// Database of the service, for faults that run on both databases
    #[arg(long, value_enum, default_value_t = Databases::Both)]
    database: Databases,
    /// Seed of an earlier run, to repeat its random moments; it is printed at the start
    #[arg(long)]
    seed: Option<u64>,
}

fn main() -> ExitCode {
    failure::ended(
        command::watch_interrupts()
            .map_err(Failure::from)
            .and_then(|()| run(&Options::parse())),
    )
}

/// Runs the faults, prints their results, and fails if anything was lost, doubled, changed or violated.
fn run(options: &Options) -> Outcome {
    packages::ensure_local_chains()?;
    let prs = workspace::build_prs()?;
    let seed = options.seed.unwrap_or_else(|| RandomState::new().hash_one(0_u8));
    let evidence = workspace::target_directory()?.join("xtask/crash");
    fs::create_dir_all(&evidence)?;
    // A build during the run would replace the binary, and later faults would run another one.
    let own = evidence.join("prs");
    fs::copy(&prs, &own).context("cannot copy the binary")?;
    eprintln!("seed {seed}; evidence in {}", evidence.display());
    let plan = Plan::new(options.short, options.kills, own, evidence, seed);
    let mut jobs: Vec<(Fault, Database)> = Vec::new();
    for fault in Fault::value_variants() {
        if options.faults.is_empty() || options.faults.contains(fault) {
            let databases = fault.databases(options.database);
            jobs.extend(databases.iter().map(|database| (*fault, *database)));
        }
    }
    let begun = Instant::now();
    let rows = Mutex::new(Vec::new());
    let in_lane = |lane: usize| {
        for (fault, database) in &jobs {
            if fault.lane(*database, options.short) == lane && !command::interrupted() {
                let row = play(&plan, *fault, *database);
                rows.lock().unwrap_or_else(PoisonError::into_inner).push(row);
            }
        }
    };
    thread::scope(|scope| {
        for lane in 0..LANES {
            scope.spawn(move || in_lane(lane));
        }
    });
    in_lane(LAST_LANE);
    let mut rows = rows.into_inner().unwrap_or_else(PoisonError::into_inner);
    rows.sort_by_key(|row: &Row| (row.fault, row.database));
    println!("{}", report::table(&rows));
    eprintln!("took {} s", begun.elapsed().as_secs());
    if rows.len() == jobs.len() && rows.iter().all(Row::is_clean) {
        Ok(())
    } else {
        Err(Failure::StepFailed(anyhow!(
            "a fault broke a promise; repeat it with --fault and --seed {seed}"
        )))
    }
}

fn play(plan: &Plan, fault: Fault, database: Database) -> Row {
    let begun = Instant::now();
    let played = match fault {
        Fault::Kills => kills::random(plan, database),
        Fault::CommitEdges => kills::at_points(plan, database),
        Fault::WorkerKills => outages::workers(plan),
        Fault::DatabaseOutages => outages::database(plan),
        Fault::CutConnections => outages::cuts(plan),
        Fault::ClockJumps => clock::jumps(plan),
        Fault::BadReceivers => receivers::bad(plan),
        Fault::HangingReceiver => receivers::one_hanging(plan),
        Fault::AbsentReceiver => receivers::away(plan),
        Fault::LeaderKills => instances::leaders(plan),
        Fault::RollingRestarts => instances::rolling(plan),
        Fault::RecurringKills => recurring::kills(plan, database),
        Fault::LinkKills => links::kills(plan, database),
        Fault::FiatKills => fiat::kills(plan, database),
        Fault::LateAnswers => outages::late(plan),
        Fault::BroadcastKills => broadcasts::kills(plan, database),
    };
    let row = played.unwrap_or_else(|error| Row::failed(fault, database, &error));
    eprintln!(
        "{} on {}: {} after {} s",
        fault.title(),
        database.name(),
        if row.is_clean() { "clean" } else { "NOT CLEAN" },
        begun.elapsed().as_secs()
    );
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_run_kills_at_least_two_hundred_times() {
        let plan = Plan::new(false, None, "prs".into(), "evidence".into(), 0);
        let databases = u64::try_from(Databases::Both.each().len()).unwrap();
        assert!(databases * (plan.kills + plan.rounds_per_point * kills::POINTS_COUNT) >= 200);
    }
}
