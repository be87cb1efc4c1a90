//! `cargo xtask plans`: how PostgreSQL executes every statement of the service in a database of a million payments.
//!
//! The server logs the statements of the tests with their values. Each statement is executed under `EXPLAIN` and rolled
//! back: once with the values of the test, and once with the values that most rows share. It is a finding if a
//! statement reads the whole of a large table, or touches more pages than its number of rows justifies. Each run also
//! drops an index and checks that this causes a finding.

mod excuses;
mod explain;
mod hot;
mod judge;
mod owners;
mod record;
mod tenants;

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::fs;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail};
use xtask::machine::failure::Outcome;
use xtask::machine::postgres::Postgres;
use xtask::machine::{command, workspace};

use hot::Frequent;
use judge::Finding;
use record::{Call, Sample, Statements};

/// Number of rows in each table that grows with each payment.
const LARGE: u64 = 1_000_000;

/// Number of rows in each other table that grows.
const MEDIUM: u64 = 20_000;

/// Name of the filled database, on the server that recorded the statements.
const DATABASE: &str = "prs_plans";

/// The SQL that fills a table.
const FILL: &str = include_str!("fill.sql");

/// Number of tables that are filled at the same time.
const FILLERS: usize = 2;

/// SQL without any effect. It runs before a statement that is explained in the unchanged database.
const AS_IT_IS: &str = "SELECT";

/// The column whose index is dropped, to check that a missing index is found.
const TAKEN_AWAY: &str = "tx_hash";

/// Judges all statements that a server recorded. `is_whole` says that all tests ran, so that unused excuses are
/// reported.
pub(crate) fn judge(server: &Postgres, is_whole: bool) -> Outcome {
    let begun = Instant::now();
    let statements = record::read(&server.log())?;
    fill(server)?;
    let filled = begun.elapsed();
    let mut findings = plans(server, &statements)?;
    let mut unused = excuses::settle(excuses::PLANS, &mut findings);
    let mut crossing = tenants::findings(&statements, &owned(server)?);
    unused.extend(excuses::settle(excuses::NO_PLATFORM, &mut crossing));
    findings.extend(crossing);
    let mut unnamed = owners::findings(&statements, &keyed(server)?);
    unused.extend(excuses::settle(excuses::ALL_OWNERS, &mut unnamed));
    findings.extend(unnamed);
    // Which statements a test run executes also depends on timing. An unused excuse is therefore only printed and is no
    // failure.
    for (shape, why) in unused.iter().filter(|_| is_whole) {
        println!("{why}:\n  {shape}\n");
    }
    for (shape, finding) in &findings {
        eprintln!("{finding}:\n  {shape}\n");
    }
    if !findings.is_empty() {
        return Err(anyhow!(
            "{} statements cost too much in a large database, or name no owner of their rows",
            findings.len()
        )
        .into());
    }
    let seen = without_index(server, &statements)?;
    println!(
        "plans: {} statements read by indexes and touch few pages; {seen}; {} s for the rows, {} s for the plans",
        statements.len(),
        filled.as_secs(),
        (begun.elapsed() - filled).as_secs()
    );
    Ok(())
}

/// Creates a database with the schema of this source tree, and fills its tables.
fn fill(server: &Postgres) -> Result<()> {
    let prs = workspace::build_prs()?;
    execute(
        server
            .psql("postgres")
            .args(["--command", &format!("CREATE DATABASE {DATABASE}")]),
    )?;
    let mut migrate = Command::new(prs);
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("PRS_")) {
        migrate.env_remove(name);
    }
    execute(
        migrate
            .args(["migrate", "up"])
            .env("PRS_DATABASE__URL", server.database(DATABASE)),
    )?;
    let sizes = [format!("--set=large={LARGE}"), format!("--set=medium={MEDIUM}")];
    let script = tempfile::NamedTempFile::new()?;
    fs::write(&script, FILL)?;
    execute(
        server
            .psql(DATABASE)
            .args(sizes)
            .args(["--set=ON_ERROR_STOP=1", "--file"])
            .arg(script.path()),
    )?;
    let tables = lines(server, "SELECT name FROM fill.tables ORDER BY rows DESC, name")?;
    for_each(server, &tables, |table| format!("SELECT fill.fill('{table}')"))?;
    // First fills all tables and then vacuums them. While a fill is running, a vacuum could mark no row as visible to
    // all transactions.
    for_each(server, &tables, |table| format!("VACUUM ANALYZE {table}"))
}

/// Executes a command for each table, several at a time.
fn for_each(server: &Postgres, tables: &[String], command: impl Fn(&str) -> String + Sync) -> Result<()> {
    let left = Mutex::new(VecDeque::from_iter(tables));
    let next = || left.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    let worker = || -> Result<()> {
        while let Some(table) = next() {
            let mut psql = server.psql(DATABASE);
            psql.args(["--set=ON_ERROR_STOP=1", "--command", &command(table)]);
            execute(&mut psql).with_context(|| format!("table {table} is not filled"))?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..FILLERS).map(|_| scope.spawn(worker)).collect();
        let ended = workers
            .into_iter()
            .map(|worker| worker.join().map_err(|_| anyhow!("a filler panicked"))?);
        ended.collect()
    })
}

/// Judges the plans of all statements. Read-only statements come first, because statements that write leave dead rows.
fn plans(server: &Postgres, statements: &Statements) -> Result<Vec<Finding>> {
    let large = large(server)?;
    let frequent = frequent(server)?;
    let mut calls: Vec<Call<'_>> = Vec::new();
    for (shape, samples) in statements {
        for sample in samples {
            let mut versions = vec![sample.values.clone()];
            for columns in [hot::OWNERS.as_slice(), hot::COLUMNS.as_slice()] {
                let heated = hot::heated(sample, columns, &frequent);
                if !versions.contains(&heated) {
                    versions.push(heated);
                }
            }
            calls.extend(versions.into_iter().map(|values| (shape.as_str(), sample, values)));
        }
    }
    calls.sort_by_key(|(shape, ..)| !shape.starts_with("SELECT"));
    let answers = explain::explain(&mut server.psql(DATABASE), AS_IT_IS, &calls)?;
    let mut findings = BTreeMap::new();
    for ((shape, _, values), answer) in calls.iter().zip(answers) {
        let entries = values.len().saturating_sub(shape.matches('$').count());
        let entries = entries + values.iter().map(|value| further_entries(value)).sum::<usize>();
        let finding = match &answer {
            Ok(plan) => judge::judge(plan, entries, &large),
            Err(reason) => Some(format!("cannot be explained ({reason})")),
        };
        if let Some(finding) = finding {
            let values = values.join(", ");
            findings
                .entry(*shape)
                .or_insert_with(|| format!("{finding} with the values {values}"));
        }
    }
    Ok(findings
        .into_iter()
        .map(|(shape, finding)| (shape.to_owned(), finding))
        .collect())
}

/// The number of entries after the first, if the value is a list in JSON; otherwise 0.
fn further_entries(value: &str) -> usize {
    let list: Option<Vec<serde_json::Value>> = serde_json::from_str(value.trim_matches('\'')).ok();
    list.map_or(0, |entries| entries.len().saturating_sub(1))
}

/// Drops an index that a statement uses, and returns the finding that results.
fn without_index(server: &Postgres, statements: &Statements) -> Result<String> {
    let large = large(server)?;
    let by_column = |(shape, samples): (&'_ String, &'_ Vec<Sample>)| -> bool {
        shape.starts_with("SELECT") && shape.contains(TAKEN_AWAY) && !samples.is_empty()
    };
    let calls: Vec<Call<'_>> = statements
        .iter()
        .filter(|statement| by_column(*statement))
        .flat_map(|(shape, samples)| samples.iter().take(1).map(move |sample| (shape.as_str(), sample)))
        .map(|(shape, sample)| (shape, sample, sample.values.clone()))
        .collect();
    let plans = explain::explain(&mut server.psql(DATABASE), AS_IT_IS, &calls)?;
    for (call, plan) in calls.iter().zip(plans.into_iter().flatten()) {
        for index in judge::indexes_by(&plan, TAKEN_AWAY) {
            let before = format!("DROP INDEX {index}");
            let plans = explain::explain(&mut server.psql(DATABASE), &before, std::slice::from_ref(call))?;
            let finding = plans
                .into_iter()
                .flatten()
                .find_map(|plan| judge::judge(&plan, 0, &large));
            if let Some(finding) = finding {
                return Ok(format!("without {index} one {finding}"));
            }
        }
    }
    bail!("no dropped index produces a finding: the plan check is broken")
}

/// The tables, or their partitions, that are so large that they must be read by an index.
fn large(server: &Postgres) -> Result<HashSet<String>> {
    let query = format!(
        "SELECT relname FROM pg_class WHERE relkind = 'r' AND reltuples >= {}",
        judge::LARGE_ROWS
    );
    Ok(lines(server, &query)?.into_iter().collect())
}

/// The tables whose rows have an owner.
fn owned(server: &Postgres) -> Result<HashSet<String>> {
    let columns = hot::OWNERS.map(|column| format!("'{column}'")).join(", ");
    let query = format!(
        "SELECT DISTINCT table_name FROM information_schema.columns \
         WHERE table_schema = 'public' AND column_name IN ({columns})"
    );
    Ok(lines(server, &query)?.into_iter().collect())
}

/// The tables whose primary key begins with the owner's column, each with the name of that column.
fn keyed(server: &Postgres) -> Result<owners::Keyed> {
    let columns = hot::OWNERS.map(|column| format!("'{column}'")).join(", ");
    let query = format!(
        "SELECT relname || '=' || attname FROM pg_index JOIN pg_class ON pg_class.oid = indrelid \
         JOIN pg_attribute ON attrelid = indrelid AND attnum = indkey[0] \
         WHERE indisprimary AND NOT relispartition AND relnamespace = 'public'::regnamespace AND attname IN ({columns})"
    );
    let lines = lines(server, &query)?;
    let pairs = lines.iter().filter_map(|line| line.split_once('='));
    Ok(pairs
        .map(|(table, column)| (table.to_owned(), column.to_owned()))
        .collect())
}

/// The most frequent value of each column that has one.
fn frequent(server: &Postgres) -> Result<Frequent> {
    let columns = hot::COLUMNS.map(|column| format!("'{column}'")).join(", ");
    let query = format!(
        "SELECT DISTINCT ON (attname) attname || '=' || quote_literal((most_common_vals::text::text[])[1]) \
         FROM pg_stats JOIN pg_class ON relname = tablename \
         WHERE schemaname = 'public' AND attname IN ({columns}) AND most_common_vals IS NOT NULL \
         ORDER BY attname, reltuples DESC, most_common_freqs[1] DESC"
    );
    let lines = lines(server, &query)?;
    let pairs = lines.iter().filter_map(|line| line.split_once('='));
    Ok(pairs
        .map(|(column, value)| (column.to_owned(), value.to_owned()))
        .collect())
}

fn lines(server: &Postgres, query: &str) -> Result<Vec<String>> {
    let answer = execute(server.psql(DATABASE).args(["--command", query]))?;
    Ok(answer.lines().map(str::to_owned).collect())
}

fn execute(command: &mut Command) -> Result<String> {
    Ok(String::from_utf8(command::capture(command)?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_that_are_one_value_count_by_their_entries() {
        for (value, further) in [("'[\"a\", \"b\", \"c\"]'", 2), ("'[]'", 0), ("'a'", 0), ("7", 0)] {
            assert_eq!(further_entries(value), further, "{value}");
        }
    }
}
