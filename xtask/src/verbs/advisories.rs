//! Checks the versions of the dependencies: a version must not be yanked from the registry, and no published security
//! advisory may concern it. The repository contains a copy of the advisories, because no package registry serves the
//! advisory database.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, anyhow};
use serde_json::Value;

use crate::verbs::deny;
use xtask::machine::failure::Outcome;
use xtask::machine::{command, workspace};

/// Path of the copied advisories, relative to the root of the repository.
const COPY: &str = "xtask/advisories.json";

/// The address of the database that cargo-deny fetches. Git is configured to fetch our copy in its place.
const UPSTREAM: &str = "https://github.com/RustSec/advisory-db";

/// Checks the versions of `Cargo.lock` for yanked versions and for advisories. An unreachable registry fails in
/// continuous integration.
pub(crate) fn check() -> Outcome {
    let copy = Copy::read()?;
    // If the registry cannot be reached, cargo only knows what the registry returned the last time.
    let refreshed = command::capture(workspace::cargo().args(["update", "--dry-run", "--quiet"]));
    if let Err(error) = refreshed {
        if command::is_ci() {
            return Err(error
                .context("the registry cannot be reached to find yanked versions")
                .into());
        }
        println!("the registry cannot be reached: yanked versions are not checked");
    }
    let folder = tempfile::tempdir().context("cannot create a folder for the advisories")?;
    let repository = folder.path().join("repository");
    copy.write(&repository)?;
    let mut deny = deny::with_database(folder.path())?;
    deny.env("GIT_CONFIG_COUNT", "1")
        .env(
            "GIT_CONFIG_KEY_0",
            format!("url.file://{}.insteadOf", repository.display()),
        )
        .env("GIT_CONFIG_VALUE_0", UPSTREAM);
    command::run(deny.args(["check", "--hide-inclusion-graph", "advisories"])).map_err(|error| {
        error.context("advisories concern the dependencies; `cargo update`, or an entry with a reason in deny.toml")
    })?;
    println!(
        "advisories: {} of a copy of {}, see {COPY}",
        copy.advisories.len(),
        copy.date
    );
    Ok(())
}

/// Advisories about our crates that were published up to a date.
struct Copy {
    date: String,
    advisories: Vec<Value>,
}

impl Copy {
    fn read() -> Result<Self> {
        let text = fs::read_to_string(workspace::root().join(COPY)).context(COPY)?;
        Self::parse(&text).context(COPY)
    }

    fn parse(text: &str) -> Result<Self> {
        let copy: Value = serde_json::from_str(text)?;
        let advisories = copy["advisories"].as_array().context("has no advisories")?;
        Ok(Self {
            date: copy["date"].as_str().context("has no date")?.to_owned(),
            advisories: advisories.clone(),
        })
    }

    /// Writes the advisories as a git repository, in the layout of the database that cargo-deny clones.
    fn write(&self, repository: &Path) -> Result<()> {
        for advisory in &self.advisories {
            let member = |name: &str| {
                advisory[name]
                    .as_str()
                    .ok_or_else(|| anyhow!("{advisory} has no {name}"))
            };
            let folder = repository.join("crates").join(member("package")?);
            fs::create_dir_all(&folder)?;
            fs::write(folder.join(format!("{}.md", member("id")?)), written(advisory)?)?;
        }
        let git = |arguments: &[&str]| {
            let identity = ["-c", "user.name=xtask", "-c", "user.email=xtask@localhost"];
            let mut git = Command::new("git");
            git.arg("-C").arg(repository).args(identity).args(arguments);
            command::capture(&mut git)
        };
        git(&["init", "--quiet", "--initial-branch=main"])?;
        git(&["add", "--all"])?;
        git(&["commit", "--quiet", "--message", &self.date])?;
        Ok(())
    }
}

/// An advisory in the file format of the advisory database. The values are written as JSON strings and lists, which are
/// valid TOML.
fn written(advisory: &Value) -> Result<String> {
    let title = advisory["title"].as_str().context("an advisory has no title")?;
    let informational = match &advisory["informational"] {
        Value::Null => String::new(),
        kind => format!("informational = {kind}\n"),
    };
    Ok(format!(
        "```toml\n[advisory]\nid = {}\npackage = {}\ndate = {}\n{informational}\n[versions]\npatched = {}\nunaffected = {}\n\
         ```\n\n# {title}\n",
        advisory["id"], advisory["package"], advisory["date"], advisory["patched"], advisory["unaffected"]
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_advisory_is_written_as_the_database_has_it() {
        let advisory = serde_json::json!({
            "id": "RUSTSEC-2026-0002", "package": "lru", "date": "2026-01-07", "title": "A title",
            "patched": [">= 0.16.3"], "unaffected": [], "informational": "unsound",
        });
        let text = written(&advisory).unwrap();
        for line in [
            "id = \"RUSTSEC-2026-0002\"",
            "informational = \"unsound\"",
            "patched = [\">= 0.16.3\"]",
            "# A title",
        ] {
            assert!(text.lines().any(|written| written == line), "{text}");
        }
    }

    #[test]
    fn every_advisory_of_the_copy_has_the_required_fields() {
        let copy = Copy::parse(include_str!("../../advisories.json")).unwrap();
        for advisory in &copy.advisories {
            let date = advisory["date"].as_str().unwrap();
            assert!(date <= copy.date.as_str() && written(advisory).is_ok(), "{advisory}");
            assert!(
                advisory["patched"].is_array() && advisory["unaffected"].is_array(),
                "{advisory}"
            );
        }
    }
}
