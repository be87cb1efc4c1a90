//! `cargo xtask crash`: everything around the service breaks, one thing after the other, while requests are created and
//! paid, and afterwards nothing may be missing, doubled or changed.

mod client;
mod clock;
mod kills;
mod load;
mod outages;
mod receivers;
mod report;
mod service;
mod sink;
mod stage;
mod verdict;
mod wire;

use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};

use self::report::Row;
use crate::failure::{Failure, Outcome};
use crate::{command, packages, workspace};

/// A delivery that a killed process had claimed is sent again when its lease of 15 seconds ends; what is repeated or
/// doubled shows only after that.
const QUIET_TIME: Duration = Duration::from_secs(18);

/// How `cargo xtask crash` runs.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Few rounds of every fault, for continuous integration
    #[arg(long)]
    short: bool,
    /// Only these faults
    #[arg(long = "fault", value_enum, ignore_case = true)]
    faults: Vec<Fault>,
    /// How often the service is killed at random moments, on each database; 40 when absent, 4 in the short form
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    kills: Option<u64>,
    /// Where the service keeps its state, for the faults that are played on both databases
    #[arg(long, value_enum, default_value_t = Databases::Both)]
    database: Databases,
    /// Makes the moments of an earlier run those of this one; it is printed at the start
    #[arg(long)]
    seed: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Databases {
    Sqlite,
    Postgres,
    Both,
}

impl Databases {
    fn each(self) -> &'static [Database] {
        match self {
            Self::Sqlite => &[Database::Sqlite],
            Self::Postgres => &[Database::Postgres],
            Self::Both => &[Database::Sqlite, Database::Postgres],
        }
    }
}

/// Where the service keeps its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Database {
    /// The embedded one.
    Sqlite,
    /// The one that grows.
    Postgres,
}

impl Database {
    /// Its name as it is printed.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
        }
    }
}

/// What is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(crate) enum Fault {
    /// The service is killed at random moments
    F1,
    /// The service ends at each edge of each commit
    F2,
    /// One of two workers is killed
    F3,
    /// PostgreSQL is killed, silent, or replaced
    F4,
    /// The connection to PostgreSQL breaks at a commit
    F5,
    /// The clock jumps two hours
    F8,
    /// Receivers answer badly
    F9,
    /// One receiver among a hundred hangs
    F10,
    /// The receiver is away
    F11,
}

impl Fault {
    const ALL: [Self; 9] = [
        Self::F1,
        Self::F2,
        Self::F3,
        Self::F4,
        Self::F5,
        Self::F8,
        Self::F9,
        Self::F10,
        Self::F11,
    ];

    /// Its number.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::F1 => "F1",
            Self::F2 => "F2",
            Self::F3 => "F3",
            Self::F4 => "F4",
            Self::F5 => "F5",
            Self::F8 => "F8",
            Self::F9 => "F9",
            Self::F10 => "F10",
            Self::F11 => "F11",
        }
    }

    /// What it is, in few words.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::F1 => "kill -9 at random",
            Self::F2 => "death at each commit edge",
            Self::F3 => "one of two workers killed",
            Self::F4 => "database killed, silent, replaced",
            Self::F5 => "connection cut at a commit",
            Self::F8 => "clock jumps 2 h",
            Self::F9 => "bad receivers",
            Self::F10 => "one hanging receiver in 100",
            Self::F11 => "receiver away, then replay",
        }
    }

    /// Which run of faults it belongs to: runs go on at the same time, because most of their time is waiting. What
    /// measures times of its own comes after all others.
    fn lane(self, database: Database, is_short: bool) -> usize {
        match self {
            Self::F1 | Self::F2 if is_short && database == Database::Postgres => 1,
            Self::F1 | Self::F2 => 0,
            Self::F3 | Self::F4 | Self::F5 => 2,
            Self::F8 | Self::F9 | Self::F11 if is_short => 3,
            Self::F8 | Self::F9 | Self::F11 => 2,
            Self::F10 => LAST_LANE,
        }
    }

    fn databases(self, chosen: Databases) -> &'static [Database] {
        match self {
            Self::F1 | Self::F2 => chosen.each(),
            Self::F3 | Self::F4 | Self::F5 | Self::F11 => &[Database::Postgres],
            Self::F8 | Self::F9 | Self::F10 => &[Database::Sqlite],
        }
    }
}

/// Lanes that go on at the same time; the last one comes after them.
const LANES: usize = 4;
const LAST_LANE: usize = LANES;

/// What all faults of a run are played with, and how long.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// The service, built with its points.
    prs: PathBuf,
    /// Where logs stay.
    evidence: PathBuf,
    seed: u64,
    is_short: bool,
    /// F1: kills.
    kills: u64,
    /// F2: deaths at each point.
    rounds_per_point: u64,
    /// F3: kills, and replays without one.
    worker_kills: u64,
    quiet_replays: u64,
    /// F4: kills of PostgreSQL.
    database_kills: u64,
    /// F5: cuts.
    cuts: u64,
    /// F8: rounds of four jumps.
    clock_rounds: u64,
    /// F9, F10 and F11: events.
    bad_events: usize,
    isolated_events: usize,
    missed_events: usize,
}

impl Plan {
    fn new(options: &Options, prs: PathBuf, evidence: PathBuf, seed: u64) -> Self {
        let is_short = options.short;
        let either = |short, full| if is_short { short } else { full };
        Self {
            prs,
            evidence,
            seed,
            is_short,
            kills: options.kills.unwrap_or(either(4, 40)),
            rounds_per_point: either(1, 3),
            worker_kills: either(1, 4),
            quiet_replays: either(1, 6),
            database_kills: either(2, 10),
            cuts: either(30, 300),
            clock_rounds: either(1, 5),
            bad_events: usize::from(!is_short) * 17 + 3,
            isolated_events: usize::from(!is_short) * 20 + 10,
            missed_events: usize::from(!is_short) * 190 + 10,
        }
    }

    fn play(&self, fault: Fault, database: Database) -> Result<Row> {
        match fault {
            Fault::F1 => kills::random(self, database),
            Fault::F2 => kills::at_points(self, database),
            Fault::F3 => outages::workers(self),
            Fault::F4 => outages::database(self),
            Fault::F5 => outages::cuts(self),
            Fault::F8 => clock::jumps(self),
            Fault::F9 => receivers::bad(self),
            Fault::F10 => receivers::one_hanging(self),
            Fault::F11 => receivers::away(self),
        }
    }
}

/// Plays the faults, prints what they cost, and fails when that is anything.
pub(crate) fn run(options: &Options) -> Outcome {
    packages::ensure_chain_node()?;
    let prs = workspace::build_prs_with(&["failpoints"])?;
    let seed = options.seed.unwrap_or_else(|| RandomState::new().hash_one(0_u8));
    let evidence = workspace::target_directory()?.join("xtask/crash");
    fs::create_dir_all(&evidence)?;
    // A build meanwhile would replace the binary, and later faults would meet another one.
    let own = evidence.join("prs");
    fs::copy(&prs, &own).context("cannot copy the binary")?;
    eprintln!("seed {seed}; evidence in {}", evidence.display());
    let plan = Plan::new(options, own, evidence, seed);
    let faults = Fault::ALL
        .into_iter()
        .filter(|fault| options.faults.is_empty() || options.faults.contains(fault));
    let jobs: Vec<(Fault, Database)> = faults
        .flat_map(|fault| {
            fault
                .databases(options.database)
                .iter()
                .map(move |database| (fault, *database))
        })
        .collect();
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
            "a fault cost something; repeat it with --fault and --seed {seed}"
        )))
    }
}

fn play(plan: &Plan, fault: Fault, database: Database) -> Row {
    let begun = Instant::now();
    let row = plan
        .play(fault, database)
        .unwrap_or_else(|error| Row::failed(fault, database, &error));
    eprintln!(
        "{} on {}: {} after {} s",
        fault.name(),
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
    fn every_fault_has_a_lane_and_a_database() {
        for fault in Fault::ALL {
            for is_short in [true, false] {
                assert!(fault.lane(Database::Sqlite, is_short) <= LAST_LANE, "{fault:?}");
            }
            assert!(!fault.databases(Databases::Both).is_empty(), "{fault:?}");
        }
    }

    #[test]
    fn a_full_run_kills_at_least_two_hundred_times() {
        let options = Options {
            short: false,
            faults: Vec::new(),
            kills: None,
            database: Databases::Both,
            seed: None,
        };
        let plan = Plan::new(&options, PathBuf::new(), PathBuf::new(), 0);
        let databases = u64::try_from(Databases::Both.each().len()).unwrap();
        assert!(databases * (plan.kills + plan.rounds_per_point * kills::POINTS_COUNT) >= 200);
    }
}
