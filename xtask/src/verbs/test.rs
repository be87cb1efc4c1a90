//! `cargo xtask test`: every test once, and the integration suite once for each database.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, anyhow};

use xtask::machine::failure::Outcome;
use xtask::machine::postgres::Postgres;
use xtask::machine::{command, packages, workspace};

/// The package whose integration suite runs once for each database.
const SERVICE: &str = "payment-request-service";

/// Which half of the tests a run of cargo takes.
#[derive(Clone, Copy)]
enum Half {
    /// Unit tests and all packages that need no database of ours.
    Units,
    /// The integration suite of the service.
    Integration,
}

/// What a run of cargo did.
struct Tally {
    passed: usize,
    succeeded: bool,
}

/// Runs all tests, or those whose path contains one of `names`.
pub(crate) fn run(names: &[String]) -> Outcome {
    if needs_browser()? {
        tolerate_outside_ci(
            "browser tests",
            packages::ensure_program("chromium", &["chromium", "chromium-driver"])
                .and_then(|_| packages::ensure_program("chromedriver", &["chromium-driver"])),
        )?;
    }
    packages::ensure_chain_node()?;
    tolerate_outside_ci("verifiers of webhooks", packages::ensure_webhook_verifiers())?;
    let postgres = tolerate_outside_ci("tests on PostgreSQL", Postgres::start())?;
    let nextest = command::capture(workspace::cargo().args(["nextest", "--version"])).is_ok();

    let url = postgres.as_ref().map(Postgres::url);
    let server: Vec<(&str, &str)> = url.iter().map(|url| ("PRS_TEST_POSTGRES_URL", url.as_str())).collect();
    let units = tally(nextest, Half::Units, names, &server)?;
    let sqlite = tally(nextest, Half::Integration, names, &[("PRS_TEST_DATABASE", "sqlite")])?;
    let on_postgres = server
        .first()
        .map(|server| {
            let settings = [("PRS_TEST_DATABASE", "postgres"), *server];
            tally(nextest, Half::Integration, names, &settings)
        })
        .transpose()?;
    drop(postgres);

    let mut total = units.passed + sqlite.passed;
    let mut succeeded = units.succeeded && sqlite.succeeded;
    println!("units: {} tests passed", units.passed);
    println!("sqlite: {} tests passed", sqlite.passed);
    match on_postgres {
        Some(tally) => {
            println!("postgres: {} tests passed", tally.passed);
            total += tally.passed;
            succeeded &= tally.succeeded;
        }
        None => println!("postgres: not run, PostgreSQL is missing"),
    }
    if !succeeded {
        let again = std::iter::once("cargo xtask test").chain(names.iter().map(String::as_str));
        return Err(anyhow!(
            "tests failed; `{}` runs them again",
            again.collect::<Vec<_>>().join(" ")
        )
        .into());
    }
    if total == 0 {
        return Err(anyhow!("no test has one of these in its path: {}", names.join(", ")).into());
    }
    Ok(())
}

/// What is missing fails in continuous integration; elsewhere it is said, with the command that brings it.
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
    let commands = match nextest {
        true => vec![nextest_command(half, names, &members)],
        false => plain_commands(half, names, &members),
    };
    let mut sum = Tally {
        passed: 0,
        succeeded: true,
    };
    for mut cargo in commands {
        cargo.envs(settings.iter().copied());
        let succeeded = command::run_watched(&mut cargo, |line| sum.passed += passed_in(line).unwrap_or(0))
            .with_context(|| format!("`{}`", command::shown(&cargo)))?;
        sum.succeeded &= succeeded;
    }
    Ok(sum)
}

fn nextest_command(half: Half, names: &[String], members: &[String]) -> Command {
    let mut cargo = workspace::cargo();
    cargo.args(["nextest", "run", "--no-fail-fast", "--no-tests=pass"]);
    match half {
        Half::Units => cargo.arg("--workspace"),
        Half::Integration => cargo.args(["--package", SERVICE, "--test", "it"]),
    };
    cargo.args(["-E", &filter(half, names, members)]);
    cargo
}

/// The filter expression of nextest for one half and the given names.
fn filter(half: Half, names: &[String], members: &[String]) -> String {
    let half = match half {
        Half::Units => format!("not binary_id(={SERVICE}::it)"),
        Half::Integration => format!("binary_id(={SERVICE}::it)"),
    };
    if names.is_empty() {
        return half;
    }
    // Nextest refuses a filter that names a package the workspace does not have.
    let named = names.iter().map(|name| match members.contains(name) {
        true => format!("test(~{name}) | package(={name})"),
        false => format!("test(~{name})"),
    });
    let named: Vec<String> = named.collect();
    format!("({half}) & ({})", named.join(" | "))
}

/// Without nextest, libtest filters by name alone, so a package asked for by its name is a run of its own.
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
    match half {
        Half::Units => {
            for package in &named_packages {
                commands.push(base(&["--package", package], &[]));
            }
            if names.is_empty() || !filters.is_empty() {
                commands.push(base(&["--workspace", "--exclude", SERVICE], &filters));
                let all_but_it = ["--lib", "--bins", "--test", "parts", "--test", "delivery"];
                commands.push(base(
                    &[["--package", SERVICE].as_slice(), &all_but_it].concat(),
                    &filters,
                ));
            }
        }
        Half::Integration if names.is_empty() || !filters.is_empty() => {
            commands.push(base(&["--package", SERVICE, "--test", "it"], &filters));
        }
        Half::Integration => {}
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
    fn names_narrow_either_half() {
        let (names, members) = (["access".to_owned(), "devnet".to_owned()], ["devnet".to_owned()]);
        assert_eq!(
            filter(Half::Units, &names, &members),
            "(not binary_id(=payment-request-service::it)) & (test(~access) | test(~devnet) | package(=devnet))"
        );
        assert_eq!(
            filter(Half::Integration, &[], &members),
            "binary_id(=payment-request-service::it)"
        );
    }
}
