//! `cargo xtask schema`: dumps the migrated database, and checks that the migrations run up, down and up again.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use xtask::machine::failure::{Failure, Outcome};
use xtask::machine::postgres::Postgres;
use xtask::machine::{command, workspace};

const GENERATE: &str = "cargo xtask schema generate";

/// Every migration is a file in this folder.
const MIGRATIONS: &str = "migration/src";

/// The bookkeeping table of the migrations.
const MIGRATIONS_TABLE: &str = "seaql_migrations";

/// Writes the dumps that the repository has.
pub(crate) fn generate() -> Outcome {
    let root = workspace::root();
    for (path, dump) in dumps()? {
        let file = root.join(path);
        if fs::read_to_string(&file).is_ok_and(|committed| committed == dump) {
            continue;
        }
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(&file, dump)?;
        println!("wrote {path}");
    }
    Ok(())
}

/// Compares the dumps with the committed ones.
pub(crate) fn check() -> Outcome {
    let root = workspace::root();
    let mut stale = Vec::new();
    for (path, dump) in dumps()? {
        let committed = fs::read_to_string(root.join(path)).unwrap_or_default();
        if let Some((line, was, is)) = first_difference(&committed, &dump) {
            eprintln!("{path}:{line}\n  committed  {was}\n  migrated   {is}");
            stale.push(path);
        }
    }
    if stale.is_empty() {
        return Ok(());
    }
    Err(Failure::NeedsUpdate(format!(
        "{} differ from the migrated database; run `{GENERATE}` and commit",
        stale.join(", ")
    )))
}

fn dumps() -> Result<Vec<(&'static str, String)>> {
    let prs = workspace::build_prs()?;
    let folder = tempfile::tempdir()?;
    let url = format!("sqlite:{}?mode=rwc", folder.path().join("schema.db").display());
    let sqlite = round_trip(&prs, folder.path(), &url).context("on SQLite")?;
    let mut found = vec![("snapshots/schema.sqlite.sql", sqlite)];
    if Postgres::is_installed() || command::is_ci() || command::is_root() {
        let server = Postgres::start()?;
        let postgres = round_trip(&prs, folder.path(), &server.url()).context("on PostgreSQL")?;
        found.push(("snapshots/schema.postgres.sql", postgres));
    } else {
        println!(
            "PostgreSQL is not installed, so its schema is skipped; `sudo apt-get install -y postgresql` installs it"
        );
    }
    Ok(found)
}

/// Number of migrations. This is also the number of steps that lead down to the empty database.
fn migrations() -> Result<usize> {
    let mut steps = 0;
    for file in fs::read_dir(workspace::root().join(MIGRATIONS))? {
        let name = file?.file_name();
        steps += usize::from(name.to_string_lossy().starts_with("m2"));
    }
    Ok(steps)
}

/// Migrates an empty database up, down and up, and returns its schema.
fn round_trip(prs: &Path, folder: &Path, url: &str) -> Result<String> {
    let migrate = |arguments: &[&str]| -> Result<String> {
        let mut service = Command::new(prs);
        // No settings file and no setting of the user's environment may change which database is tested.
        service.current_dir(folder);
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("PRS_")) {
            service.env_remove(name);
        }
        service.env("PRS_DATABASE__URL", url).arg("migrate").args(arguments);
        Ok(String::from_utf8(command::capture(&mut service)?)?)
    };
    migrate(&["up"])?;
    let first = migrate(&["dump"])?;
    migrate(&["down", &migrations()?.to_string(), "--yes"])?;
    let left = left_over(&migrate(&["dump"])?);
    if !left.is_empty() {
        bail!("`prs migrate down` leaves behind: {}", left.join("; "));
    }
    migrate(&["up"])?;
    let second = migrate(&["dump"])?;
    if let Some((line, was, is)) = first_difference(&first, &second) {
        bail!("migrating up a second time gives another schema, line {line}: `{was}` became `{is}`");
    }
    Ok(second)
}

/// The statements of a dump that are not about the bookkeeping table of the migrations.
fn left_over(dump: &str) -> Vec<String> {
    let without_comments: Vec<&str> = dump
        .lines()
        .filter(|line| !line.trim_start().starts_with("--"))
        .collect();
    let statements = without_comments.join("\n");
    statements
        .split(';')
        .map(str::trim)
        .filter(|statement| !statement.is_empty() && !statement.contains(MIGRATIONS_TABLE))
        .map(str::to_owned)
        .collect()
}

/// The first line in which two texts differ, counted from one.
fn first_difference<'t>(left: &'t str, right: &'t str) -> Option<(usize, &'t str, &'t str)> {
    let (mut left, mut right) = (left.lines(), right.lines());
    let mut line = 0;
    loop {
        line += 1;
        match (left.next(), right.next()) {
            (None, None) => return None,
            (one, other) if one == other => {}
            (one, other) => return Some((line, one.unwrap_or("(end)"), other.unwrap_or("(end)"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_named_by_line() {
        assert_eq!(first_difference("a\nb\n", "a\nb\n"), None);
        assert_eq!(first_difference("a\nb", "a\nc"), Some((2, "b", "c")));
        assert_eq!(first_difference("a", "a\nb"), Some((2, "(end)", "b")));
    }

    #[test]
    fn only_the_bookkeeping_of_migrations_may_remain_after_down() {
        let dump = "-- schema\nCREATE TABLE seaql_migrations (version text);\n";
        assert!(left_over(dump).is_empty());
        assert_eq!(
            left_over(&format!("{dump}CREATE TABLE a (b text);")),
            ["CREATE TABLE a (b text)"]
        );
    }
}
