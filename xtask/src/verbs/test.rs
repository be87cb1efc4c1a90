//! `cargo xtask test`: runs every test once, except the integration suite, which runs once for each database. With the
//! name `payer` it runs only the tests of payers and their bank accounts. With the name `abuse` it runs a measurement
//! and no tests. `cargo xtask plans` checks how PostgreSQL executes SQL statements; `cargo xtask test --plans` does so
//! after the tests.

use std::fs;
use std::num::NonZeroUsize;
use std::process::Command;

use anyhow::{Context, Result, anyhow};
use clap::Args;

use xtask::machine::failure::{Failure, Outcome};
use xtask::machine::postgres::Postgres;
use xtask::machine::{command, packages, workspace};

use super::plans;

/// The package whose integration suite runs once for each database.
const SERVICE: &str = "payment-request-service";

/// The variable that makes tests search all of their databases for leaked secrets.
const SEARCH_ALL: &str = "PRS_TEST_LEAKS";

/// The variable with the number of tests that run at the same time.
const THREADS: &str = "NEXTEST_TEST_THREADS";

/// The part of the tests that one run of cargo executes.
#[derive(Clone, Copy)]
enum Half {
    /// Unit tests, and all packages that need no database of the service.
    Units,
    /// The integration suite of the service on SQLite.
    OnSqlite,
    /// The integration suite of the service on PostgreSQL, without the tests that do not depend on the database.
    OnPostgres,
}

/// Modules of the integration suite whose results do not depend on the database, such as input formats, documents and
/// pages. They run only on SQLite.
const WITHOUT_DATABASE: [&str; 19] = [
    "bad_input",
    "browser",
    "conversion_math",
    "currencies",
    "dev_room",
    "docs_page",
    "documents",
    "guides",
    "health",
    "links_input",
    "log_lines",
    "off_ramp_input",
    "origins",
    "payers_input",
    "process",
    "rate_limits",
    "strict_clients",
    "tron_codec",
    "vectors",
];

/// Name of the test binary of the payment path. As a name on the command line, it selects all tests of the binary.
const MONEY: &str = "money";

/// The name on the command line that selects the tests of payers and of payments to their bank accounts.
const PAYER: &str = "payer";

/// Parts of the paths of the tests of payers and bank accounts.
const PAYER_TESTS: [&str; 4] = ["off_ramp", "payer", "bank_rules", "guide_to_bank_accounts"];

/// Result of a cargo run.
struct Tally {
    passed: usize,
    succeeded: bool,
}

/// The name on the command line of a measurement. It needs an idle machine, so it runs alone and only if it is named.
const ABUSE: &str = "abuse";

/// Options of `cargo xtask test`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Parts of test paths, such as `access` or `tron`; `abuse` alone measures how a greedy tenant affects a modest one
    names: Vec<String>,
    /// Also show how PostgreSQL executes the statements of these tests, as `cargo xtask plans` does
    #[arg(long)]
    plans: bool,
    /// Search the database of every test for leaked secrets, not only of tests with secrets other than an API key
    #[arg(long)]
    leaks: bool,
}

/// Runs all tests, or those whose path contains one of the names.
pub(crate) fn run(options: &Options) -> Outcome {
    let (asked, with_plans) = (options.names.as_slice(), options.plans);
    if asked.iter().any(|name| name == ABUSE) {
        if asked.len() > 1 {
            return Err(anyhow!("`cargo xtask test {ABUSE}` measures, so it cannot be combined with tests").into());
        }
        return abuse();
    }
    let mut names = asked.to_vec();
    if names.iter().any(|name| name == PAYER) {
        names.retain(|name| name != PAYER);
        names.extend(PAYER_TESTS.map(str::to_owned));
    }
    let names = names.as_slice();
    if needs_browser()? {
        tolerate_outside_ci("browser tests", packages::ensure_browser())?;
    }
    packages::ensure_local_chains()?;
    tolerate_outside_ci("verifiers of webhooks", packages::ensure_webhook_verifiers())?;
    let postgres = if with_plans {
        Some(Postgres::start_recording()?)
    } else {
        tolerate_outside_ci("tests on PostgreSQL", Postgres::start())?
    };
    let nextest = command::capture(workspace::cargo().args(["nextest", "--version"])).is_ok();

    let url = postgres.as_ref().map(Postgres::url);
    let server: Vec<(&str, &str)> = url.iter().map(|url| ("PRS_TEST_POSTGRES_URL", url.as_str())).collect();
    let search_all: &[(&str, &str)] = if options.leaks { &[(SEARCH_ALL, "1")] } else { &[] };
    let units = tally(nextest, Half::Units, names, &[server.as_slice(), search_all].concat())?;
    let on_sqlite = [&[("PRS_TEST_DATABASE", "sqlite")], search_all].concat();
    let sqlite = tally(nextest, Half::OnSqlite, names, &on_sqlite)?;
    let on_postgres = server
        .first()
        .map(|server| {
            let settings = [&[("PRS_TEST_DATABASE", "postgres"), *server], search_all].concat();
            tally(nextest, Half::OnPostgres, names, &settings)
        })
        .transpose()?;

    let mut total = units.passed + sqlite.passed;
    let mut succeeded = units.succeeded && sqlite.succeeded;
    println!("units: {} tests passed", units.passed);
    println!("sqlite: {} tests passed", sqlite.passed);
    match &on_postgres {
        Some(tally) => {
            println!("postgres: {} tests passed", tally.passed);
            total += tally.passed;
            succeeded &= tally.succeeded;
        }
        None => println!("postgres: skipped, PostgreSQL is missing"),
    }
    let judged = match &postgres {
        // After a failed test, fewer statements are recorded. The plans of the recorded ones are still checked.
        Some(server) if with_plans => plans::judge(server, succeeded && asked.is_empty()),
        _ => Ok(()),
    };
    drop(postgres);
    if !succeeded {
        let again = std::iter::once("cargo xtask test").chain(asked.iter().map(String::as_str));
        return Err(anyhow!(
            "tests failed; `{}` runs them again",
            again.collect::<Vec<_>>().join(" ")
        )
        .into());
    }
    if total == 0 {
        return Err(anyhow!("no test has one of these in its path: {}", asked.join(", ")).into());
    }
    judged
}

/// Runs the tests that use PostgreSQL, or those of them with one of the names, and checks the plans of their
/// statements.
pub(crate) fn plans(names: &[String]) -> Outcome {
    packages::ensure_local_chains()?;
    let postgres = Postgres::start_recording()?;
    let nextest = command::capture(workspace::cargo().args(["nextest", "--version"])).is_ok();
    let url = postgres.url();
    let server = ("PRS_TEST_POSTGRES_URL", url.as_str());
    let units = tally(nextest, Half::Units, names, &[server])?;
    let settings = [("PRS_TEST_DATABASE", "postgres"), server];
    let stored = tally(nextest, Half::OnPostgres, names, &settings)?;
    let succeeded = units.succeeded && stored.succeeded;
    let judged = plans::judge(&postgres, succeeded && names.is_empty());
    if !succeeded {
        return Err(anyhow!("tests failed, so not every statement was recorded").into());
    }
    judged
}

/// Measures with a release build how much a greedy tenant slows down a modest tenant. A missed goal is a failure.
fn abuse() -> Outcome {
    packages::ensure_local_chains()?;
    packages::ensure_program("taskset", &["util-linux"])?;
    let postgres = Postgres::start()?;
    let bench = |further: &[&str]| {
        let mut cargo = workspace::cargo();
        cargo
            .args(["bench", "--package", SERVICE, "--bench", "numbers"])
            .args(further);
        cargo
    };
    command::run(&mut bench(&["--no-run"]))?;
    let mut bench = bench(&["--", "--abuse"]);
    bench.env("PRS_BENCH_POSTGRES_URL", postgres.url());
    command::run(&mut bench).map_err(Failure::StepFailed)
}

/// Handles a missing program. In continuous integration it is an error; elsewhere a message names the command that
/// installs the program, and the step is skipped.
fn tolerate_outside_ci<T>(what: &str, result: Result<T>) -> Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if command::is_ci() => Err(error.context(format!("{what} cannot run"))),
        Err(error) => {
            eprintln!("{what} cannot run: {error:#}");
            Ok(None)
        }
    }
}

/// Whether any test drives a browser.
fn needs_browser() -> Result<bool> {
    let root = workspace::root();
    for path in workspace::files()?.iter().filter(|path| path.starts_with("tests")) {
        if fs::read_to_string(root.join(path)).is_ok_and(|text| text.contains("chromedriver")) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn tally(nextest: bool, half: Half, names: &[String], settings: &[(&str, &str)]) -> Result<Tally> {
    let members = workspace::packages()?;
    let commands = if nextest {
        vec![nextest_command(half, names, &members)]
    } else {
        plain_commands(half, names, &members)
    };
    let mut sum = Tally {
        passed: 0,
        succeeded: true,
    };
    for mut cargo in commands {
        cargo.envs(settings.iter().copied());
        let watch = |line: &str| sum.passed += passed_in(line).unwrap_or(0);
        let succeeded =
            command::run_watched(&mut cargo, watch).with_context(|| format!("`{}`", command::shown(&cargo)))?;
        sum.succeeded &= succeeded;
    }
    Ok(sum)
}

fn nextest_command(half: Half, names: &[String], members: &[String]) -> Command {
    let mut cargo = workspace::cargo();
    cargo.args(["nextest", "run", "--no-fail-fast", "--no-tests=pass"]);
    // An earlier run has already built the workspace. A build of one package would build its dependencies again with
    // fewer features.
    cargo.arg("--workspace");
    cargo.args(["-E", &filter(half, names, members)]);
    if std::env::var_os(THREADS).is_none() {
        // Half of the time of a test is spent waiting: for blocks, ends of calls, backoffs and page polls.
        let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        cargo.env(THREADS, (2 * cores).to_string());
    }
    cargo
}

/// The nextest filter expression that selects the tests of one half with the given names.
fn filter(half: Half, names: &[String], members: &[String]) -> String {
    let stored = format!("binary_id(={SERVICE}::it) | (binary_id(={SERVICE}::{MONEY}) & test(/^findings::/))");
    let half = match half {
        Half::Units => format!("not ({stored})"),
        Half::OnSqlite => stored,
        Half::OnPostgres => format!("({stored}) - test(/^({})::/)", WITHOUT_DATABASE.join("|")),
    };
    if names.is_empty() {
        return half;
    }
    // Nextest rejects a filter that names a package outside the workspace.
    let named = names.iter().map(|name| match name.as_str() {
        MONEY => format!("test(~{name}) | binary_id(={SERVICE}::{MONEY})"),
        _ if members.contains(name) => format!("test(~{name}) | package(={name})"),
        _ => format!("test(~{name})"),
    });
    let named: Vec<String> = named.collect();
    format!("({half}) & ({})", named.join(" | "))
}

/// The commands without nextest. Cargo filters tests only by name, so each package that a name selects needs a run of
/// its own.
fn plain_commands(half: Half, names: &[String], members: &[String]) -> Vec<Command> {
    let base = |arguments: &[&str], filters: &[&String]| {
        let mut cargo = workspace::cargo();
        cargo
            .args(["test", "--no-fail-fast"])
            .args(arguments)
            .arg("--")
            .args(filters);
        cargo
    };
    let (named_packages, filters): (Vec<&String>, Vec<&String>) = names
        .iter()
        .partition(|name| members.contains(name) && *name != SERVICE);
    let mut commands = Vec::new();
    let is_money = names.iter().any(|name| name == MONEY);
    let money = ["--package", SERVICE, "--test", MONEY];
    match half {
        Half::Units if is_money => commands.push(base(&money, &[])),
        Half::OnSqlite | Half::OnPostgres if is_money || names.is_empty() => {
            commands.push(base(&money, &[&"findings::".to_owned()]))
        }
        _ => {}
    }
    match half {
        Half::Units => {
            for package in &named_packages {
                commands.push(base(&["--package", package], &[]));
            }
            if names.is_empty() || !filters.is_empty() {
                commands.push(base(&["--workspace", "--exclude", SERVICE], &filters));
                let all_but_it = [
                    "--lib", "--bins", "--test", "parts", "--test", "delivery", "--test", "page", "--test", "docs",
                    "--test", MONEY,
                ];
                commands.push(base(
                    &[["--package", SERVICE].as_slice(), &all_but_it].concat(),
                    &filters,
                ));
            }
        }
        Half::OnSqlite | Half::OnPostgres if names.is_empty() || !filters.is_empty() => {
            commands.push(base(&["--package", SERVICE, "--test", "it"], &filters));
        }
        Half::OnSqlite | Half::OnPostgres => {}
    }
    commands
}

/// The number of passed tests in a summary line of nextest or of libtest.
fn passed_in(line: &str) -> Option<usize> {
    let line = line.trim();
    if !line.starts_with("Summary [") && !line.starts_with("test result:") {
        return None;
    }
    let (before, _) = line.split_once(" passed")?;
    before.rsplit(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_of_both_runners_are_counted() {
        assert_eq!(
            passed_in("     Summary [   1.234s] 12 tests run: 12 passed (1 slow), 0 skipped"),
            Some(12)
        );
        assert_eq!(
            passed_in("     Summary [   0.1s] 3/4 tests run: 2 passed, 1 failed, 0 skipped"),
            Some(2)
        );
        assert_eq!(
            passed_in("test result: ok. 5 passed; 0 failed; 0 ignored; 0 measured"),
            Some(5)
        );
        assert_eq!(passed_in("        PASS [   0.010s] service::it all 7 passed"), None);
    }

    #[test]
    fn without_nextest_every_test_binary_is_started() {
        let halves = [Half::Units, Half::OnSqlite].map(|half| plain_commands(half, &[], &[]));
        let started: Vec<String> = halves.iter().flatten().map(command::shown).collect();
        let mut count = 0;
        for entry in fs::read_dir(workspace::root().join("tests")).expect("the tests") {
            let folder = entry.expect("a folder").path();
            if folder.join("main.rs").exists() {
                let name = folder.file_name().expect("a name").display().to_string();
                let is_started = started.iter().any(|line| line.contains(&format!("--test {name} ")));
                assert!(is_started, "{name}: {started:?}");
                count += 1;
            }
        }
        assert!(count > 4, "only {count} binaries");
    }

    #[test]
    fn every_module_that_runs_on_one_database_exists() {
        let suite = workspace::root().join("tests/it");
        for module in WITHOUT_DATABASE {
            let is_there = suite.join(format!("{module}.rs")).exists() || suite.join(module).is_dir();
            assert!(is_there, "{module}");
        }
    }

    #[test]
    fn names_narrow_either_half() {
        let (names, members) = (["access".to_owned(), "devnet".to_owned()], ["devnet".to_owned()]);
        assert_eq!(
            filter(Half::Units, &names, &members),
            "(not (binary_id(=payment-request-service::it) | (binary_id(=payment-request-service::money) & \
             test(/^findings::/)))) & (test(~access) | test(~devnet) | package(=devnet))"
        );
        assert_eq!(
            filter(Half::OnSqlite, &[], &members),
            "binary_id(=payment-request-service::it) | (binary_id(=payment-request-service::money) & \
             test(/^findings::/))"
        );
        let on_postgres = filter(Half::OnPostgres, &[], &members);
        assert!(on_postgres.contains("- test(/^(bad_input|browser|"), "{on_postgres}");
        let money = filter(Half::Units, &["money".to_owned()], &members);
        assert!(
            money.ends_with("& (test(~money) | binary_id(=payment-request-service::money))"),
            "{money}"
        );
    }
}
