//! `cargo xtask conformance`: checks a deployment against the documents, operation by operation.

mod document;
mod events;
mod judge;
mod options;
mod plan;
mod refusals;
mod report;
mod target;
mod walk;

use std::fs;
use std::process::ExitCode;
use std::time::{Instant, SystemTime};

use anyhow::{Context as _, Result, anyhow};
use clap::Parser;
use serde_json::Value;
use xtask::machine::command;
use xtask::machine::failure::{self, Failure, Outcome};
use xtask::service::chain::Chain;
use xtask::service::hooks::Hooks;

use crate::document::Documents;
use crate::options::Options;
use crate::plan::{BEGIN, Credential, DESTINATIONS, END, LEFT, LINKS, PARTNERS, PEOPLE, Values};
use crate::report::{Report, Verdict};
use crate::target::{Deployment, Target, require_test_chain};
use crate::walk::{STOPPED, Walk};

/// The only check that may be skipped when the run checks `prs dev`: it needs a signed callback, and only the off-ramp
/// partner can sign one.
const LEFT_OUT_OF_DEV: [(&str, &str); 1] = [("receiveOffRampNews", "200")];

fn main() -> ExitCode {
    failure::ended(run(&Options::parse()))
}

/// Checks a deployment and prints the findings.
fn run(options: &Options) -> Outcome {
    command::watch_interrupts()?;
    // If an earlier report stayed and the run was stopped, the earlier report could be mistaken for the report of this
    // run.
    if let Some(path) = options.junit.as_ref().filter(|path| path.exists()) {
        fs::remove_file(path).with_context(|| path.display().to_string())?;
    }
    let documents = Documents::committed()?;
    let target = Target::start(options)?;
    let mut deployment = target.deployment(options, &documents)?;
    if let Some(rpc_url) = &deployment.rpc_url {
        require_test_chain(&Chain::at(rpc_url))?;
    }
    let receiver = receiver(options, &mut deployment)?;
    println!("examining {}", deployment.url);
    let begun = Instant::now();
    let report = examine(&deployment, receiver.as_ref())?;
    print!("{}", report.text());
    println!("took {} s", begun.elapsed().as_secs());
    if let Some(path) = &options.junit {
        report.write_junit(path)?;
    }
    if command::interrupted() {
        return Err(anyhow!("interrupted: the remaining checks are skipped").into());
    }
    let failed = report.failed();
    if !failed.is_empty() {
        let named = failed.join(", ");
        return Err(Failure::StepFailed(anyhow!("not as documented: {named}")));
    }
    if matches!(target, Target::Dev(_)) && report.left_out() != LEFT_OUT_OF_DEV {
        let error = anyhow!(
            "`prs dev` offers everything, but these checks were skipped: {:?}",
            report.left_out()
        );
        return Err(Failure::StepFailed(error));
    }
    Ok(())
}

/// A receiver of events, if the deployment can reach one.
fn receiver(options: &Options, deployment: &mut Deployment<'_>) -> Result<Option<Hooks>> {
    let loopback = ["http://127.0.0.1", "http://localhost", "http://[::1]"];
    let is_here = loopback.iter().any(|start| deployment.url.starts_with(start));
    if options.receiver_url.is_none() && !is_here {
        return Ok(None);
    }
    let hooks = Hooks::listen(options.receiver_port, events::refused_once)?;
    let url = options.receiver_url.clone().unwrap_or_else(|| hooks.url());
    deployment.values.insert("receiver".to_owned(), url);
    Ok(Some(hooks))
}

/// Makes all checks once. The objects of the run are named `conformance-` and a number.
fn examine(deployment: &Deployment<'_>, receiver: Option<&Hooks>) -> Result<Report> {
    let mut values = deployment.values.clone();
    let number = number()?;
    values.insert("name".to_owned(), format!("conformance-{number}"));
    values.insert("email".to_owned(), format!("conformance-{number}@example.com"));
    values.insert("password".to_owned(), format!("conformance of {number}"));
    let mut walk = Walk::new(deployment, values);
    learn_currency(&mut walk);
    walk.steps(BEGIN);
    walk.steps(PEOPLE);
    if is_paid_already(&walk) {
        walk.leave_out(
            DESTINATIONS,
            "the wallet of --payer has its own destination, which the run would deactivate",
        )
    } else {
        walk.steps(DESTINATIONS)
    }
    walk.steps(LINKS);
    walk.steps(PARTNERS);
    if !command::interrupted() {
        refusals::idempotency(&mut walk);
        events::test(&mut walk, receiver);
        let chain = deployment.rpc_url.as_deref().map(Chain::at);
        events::payment(&mut walk, chain.as_ref(), receiver);
    }
    refusals::all(&mut walk);
    walk.wait_until_back();
    walk.end(LEFT);
    walk.take_away(END);
    let succeeds = |id: &str| {
        let mut checks = walk.report.0.iter().filter(|check| check.operation == id);
        checks.any(|check| check.name.starts_with('2'))
    };
    let ids = walk.operations().iter().map(|operation| operation.id);
    let forgotten: Vec<&str> = ids.filter(|id| !succeeds(id)).collect();
    let why = if command::interrupted() {
        STOPPED
    } else {
        "this program has no step for it"
    };
    for id in forgotten {
        walk.report.add(id, "2xx", Verdict::LeftOut(why.to_owned()));
    }
    Ok(walk.report)
}

/// Whether the payer's wallet already has a payee destination that no earlier run created.
fn is_paid_already(walk: &Walk<'_>) -> bool {
    let (Ok(operation), Ok(headers)) = (walk.operation("getOwnDestination"), walk.headers(Credential::Wallet)) else {
        return false;
    };
    let found = walk.call(operation, operation.path, "", &headers, "");
    found.is_ok_and(|found| found.json()["id"].is_string())
}

/// A number that no earlier run used.
#[expect(clippy::disallowed_methods, reason = "names must differ from run to run")]
fn number() -> Result<u128> {
    Ok(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_micros())
}

/// Looks up the token and the chain of the currency, which some operations need.
fn learn_currency(walk: &mut Walk<'_>) {
    let (Ok(operation), Ok(headers)) = (walk.operation("listCurrencies"), walk.headers(Credential::Key)) else {
        return;
    };
    let query = format!("id={}", walk.values["currency"]);
    // The first step of the plan makes the same call and reports its result, so this call reports nothing.
    let Ok(found) = walk.call(operation, operation.path, &query, &headers, "") else {
        return;
    };
    let found = found.json();
    let mut learnt = Values::new();
    for (name, pointer) in [
        ("tokenAddress", "/0/address"),
        ("chainId", "/0/chainId"),
        ("symbol", "/0/symbol"),
        ("chain", "/0/network"),
    ] {
        match found.pointer(pointer) {
            Some(Value::String(text)) if name == "chain" => learnt.insert(name.to_owned(), text.to_uppercase()),
            Some(Value::String(text)) => learnt.insert(name.to_owned(), text.clone()),
            Some(other) => learnt.insert(name.to_owned(), other.to_string()),
            None => None,
        };
    }
    walk.values.extend(learnt);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Operation;
    use crate::plan::EVENTS;

    /// Operations that the plan does not call, because other code of the run calls them.
    const ELSEWHERE: [&str; 2] = ["testWebhooks", "followEvents"];

    #[test]
    fn an_unresponsive_deployment_gets_a_report_of_the_failures() {
        let documents = Documents::committed().unwrap();
        let given = ["apiKey", "payee", "payer", "currency", "network"];
        let values = given.map(|name| (name.to_owned(), "1".to_owned()));
        let nowhere = "http://127.0.0.1:1".to_owned();
        let deployment = Deployment {
            documents: &documents,
            url: nowhere.clone(),
            auth_url: nowhere,
            rpc_url: None,
            values: values.into(),
        };
        let report = examine(&deployment, None).unwrap();
        let failed = report.failed();
        assert!(
            failed.contains(&"createRequest") && failed.contains(&"logIn"),
            "{failed:?}"
        );
        assert!(report.0.iter().all(|check| check.verdict != Verdict::Held));
    }

    #[test]
    fn every_operation_is_called_for_its_success() {
        let documents = Documents::committed().unwrap();
        let steps = [BEGIN, PEOPLE, DESTINATIONS, LINKS, PARTNERS, EVENTS, LEFT, END].concat();
        for document in [&documents.v2, &documents.auth] {
            for operation in Operation::all(document, "") {
                let planned = steps.iter().any(|step| {
                    step.operation == operation.id && operation.response(step.status).is_some() && step.status < 300
                });
                let excused = LEFT_OUT_OF_DEV.iter().any(|(id, _)| *id == operation.id);
                let is_called = planned || ELSEWHERE.contains(&operation.id) || excused;
                assert!(is_called, "{} has no step", operation.id);
            }
        }
        for step in steps {
            let known = [&documents.v2, &documents.auth]
                .into_iter()
                .flat_map(|document| Operation::all(document, ""))
                .any(|operation| operation.id == step.operation);
            assert!(known, "{} is not an operation", step.operation);
        }
    }
}
