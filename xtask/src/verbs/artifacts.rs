//! Checks that all cargo commands share one set of built dependencies. Cargo builds a dependency once for each set of
//! features, and each command enables the features that its selected packages need together. The check reads cargo's
//! plan for each command, builds nothing, and lists what a command would have to build again.

use std::collections::{BTreeMap, HashMap};

use anyhow::{Context, Result, anyhow};
use serde_json::Value;

use xtask::machine::failure::{Failure, Outcome};
use xtask::machine::{command, workspace};

/// Two groups of commands. In each, the `whole` commands build everything, and the `parts` must need no further
/// artifacts.
const COMMANDS: [Commands; 2] = [
    Commands {
        whole: &["build --workspace --all-targets", "test --workspace --no-run"],
        parts: &[
            "build",
            "build --bin prs",
            "build --bin xtask",
            "build --workspace --bin prs",
            "build --package payment-request-service",
            "test --package payment-request-service --no-run",
        ],
    },
    Commands {
        whole: &["check --workspace --all-targets"],
        parts: &["check", "check --package payment-request-service --all-targets"],
    },
];

struct Commands {
    whole: &'static [&'static str],
    parts: &'static [&'static str],
}

/// The units that cargo would build: the name of each, by its identity.
type Units = BTreeMap<String, String>;

/// Compares the plans of the commands.
pub(crate) fn check() -> Outcome {
    let mut found = Vec::new();
    for commands in COMMANDS {
        let mut whole = Units::new();
        for line in commands.whole {
            whole.extend(units(&plan(line)?)?);
        }
        for line in commands.parts {
            let further = missing(units(&plan(line)?)?, &whole);
            if !further.is_empty() {
                found.push(format!("`cargo {line}` builds once more: {}", further.join(", ")));
            }
        }
    }
    if found.is_empty() {
        Ok(())
    } else {
        Err(Failure::Broken(anyhow!(
            "{}; declare the features that differ in Cargo.toml of the service",
            found.join("; ")
        )))
    }
}

/// Cargo's plan for a command line. Only nightly cargo prints plans; the variable `RUSTC_BOOTSTRAP` enables that.
fn plan(line: &str) -> Result<Value> {
    let mut cargo = workspace::cargo();
    cargo
        .args(line.split(' '))
        .args(["-Z", "unstable-options", "--unit-graph"]);
    let plan = command::capture(cargo.env("RUSTC_BOOTSTRAP", "1"))?;
    serde_json::from_slice(&plan).context("the plan of cargo")
}

/// The units of a plan, with their names.
fn units(plan: &Value) -> Result<Units> {
    let units = plan["units"].as_array().context("the plan of cargo has no units")?;
    let mut known = HashMap::new();
    for index in 0..units.len() {
        identify(index, units, &mut known)?;
    }
    let named = known
        .into_iter()
        .map(|(index, identity)| (identity, name(&units[index])));
    Ok(named.collect())
}

/// The identity of a unit: a text of its own properties and of the identities of the units that it depends on.
fn identify(index: usize, units: &[Value], known: &mut HashMap<usize, String>) -> Result<String> {
    if let Some(identity) = known.get(&index) {
        return Ok(identity.clone());
    }
    let unit = units.get(index).context("a plan of cargo without one of its units")?;
    let mut dependencies = Vec::new();
    for dependency in unit["dependencies"].as_array().into_iter().flatten() {
        let at = dependency["index"].as_u64().and_then(|at| usize::try_from(at).ok());
        let at = at.context("a dependency of a unit without its index")?;
        let identity = identify(at, units, known)?;
        dependencies.push(format!("{}={identity}", dependency["extern_crate_name"]));
    }
    dependencies.sort();
    let members = ["pkg_id", "target", "profile", "platform", "mode", "features"];
    let own: Vec<String> = members.iter().map(|member| unit[*member].to_string()).collect();
    let identity = digest(&format!("{} {}", own.join(" "), dependencies.join(" ")));
    known.insert(index, identity.clone());
    Ok(identity)
}

fn digest(text: &str) -> String {
    use sha2::{Digest, Sha256};
    hex::encode(Sha256::digest(text.as_bytes()))
}

/// A unit in words: its package, version and features.
fn name(unit: &Value) -> String {
    let package = unit["pkg_id"].as_str().unwrap_or_default();
    let package = package.rsplit('/').next().unwrap_or_default();
    format!(
        "{} with {}",
        package.rsplit_once('#').map_or(package, |(_, name)| name),
        unit["features"]
    )
}

/// Names of the units that one command needs and that the shared set of units does not contain.
fn missing(part: Units, whole: &Units) -> Vec<String> {
    let mut names: Vec<String> = part
        .into_iter()
        .filter(|(identity, _)| !whole.contains_key(identity))
        .map(|(_, name)| name)
        .collect();
    names.sort();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A plan with a library that has these features, and with a program that uses the library.
    fn plan_with(features: &[&str]) -> Value {
        let target = json!({ "name": "it" });
        json!({ "units": [
            {
                "pkg_id": "registry+https://index#poem@3.1.12", "target": target, "features": features, "dependencies": [],
            },
            {
                "pkg_id": "path+file:///work#0.1.0", "target": target, "features": [],
                "dependencies": [{ "index": 0, "extern_crate_name": "poem" }],
            },
        ]})
    }

    #[test]
    fn a_dependency_with_other_features_is_rebuilt_with_its_dependents() {
        let whole = units(&plan_with(&["server", "test"])).expect("a plan");
        assert_eq!(missing(whole.clone(), &whole), Vec::<String>::new());
        let part = units(&plan_with(&["server"])).expect("a plan");
        assert_eq!(
            missing(part, &whole),
            ["0.1.0 with []", "poem@3.1.12 with [\"server\"]"]
        );
    }
}
