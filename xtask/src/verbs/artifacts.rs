//! Whether all commands share one set of built dependencies. A dependency is built once for each set of its features, and a
//! command unifies those of the packages that it selects: what one of them would build anew is named here, as cargo plans it,
//! and nothing is built.

use std::collections::{BTreeMap, HashMap};

use anyhow::{Context, Result, anyhow};
use serde_json::Value;

use xtask::machine::failure::{Failure, Outcome};
use xtask::machine::{command, workspace};

/// Commands that build everything, and those that must find what they need among that.
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

/// What cargo would build, by everything that makes one artifact another one.
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
    match found.is_empty() {
        true => Ok(()),
        false => Err(Failure::Broken(anyhow!(
            "{}; declare the features that differ in Cargo.toml of the service",
            found.join("; ")
        ))),
    }
}

/// What cargo plans for a command line. Plans are printed by cargo of the nightly channel, which this variable has it be.
fn plan(line: &str) -> Result<Value> {
    let mut cargo = workspace::cargo();
    cargo
        .args(line.split(' '))
        .args(["-Z", "unstable-options", "--unit-graph"]);
    let plan = command::capture(cargo.env("RUSTC_BOOTSTRAP", "1"))?;
    serde_json::from_slice(&plan).context("the plan of cargo")
}

/// The units of a plan with their names.
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

/// All that tells a unit from others of the same package: itself, and the same of each unit that it depends on.
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

/// Package, version and features.
fn name(unit: &Value) -> String {
    let package = unit["pkg_id"].as_str().unwrap_or_default();
    let package = package.rsplit('/').next().unwrap_or_default();
    format!(
        "{} with {}",
        package.rsplit_once('#').map_or(package, |(_, name)| name),
        unit["features"]
    )
}

/// Names of units of a part that the whole does not have.
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

    /// A plan of a library with these features, and of a program that uses it.
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
    fn a_dependency_with_other_features_is_built_once_more_with_all_that_stand_on_it() {
        let whole = units(&plan_with(&["server", "test"])).expect("a plan");
        assert_eq!(missing(whole.clone(), &whole), Vec::<String>::new());
        let part = units(&plan_with(&["server"])).expect("a plan");
        assert_eq!(
            missing(part, &whole),
            ["0.1.0 with []", "poem@3.1.12 with [\"server\"]"]
        );
    }
}
