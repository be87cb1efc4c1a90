//! A hand-written search service with fastify and pg. It executes the statements of our service and returns a response
//! of the same shape. Its code is in `benches/peers/search`, with pinned npm packages.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, ensure};
use prs::{domain::currency::CurrencyFilter, flows::auth::identify, settings::catalogue};
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use super::recorded::{Recorded, Statement};
use super::{Filled, Kind, Sample, mixed};
use crate::load;
use crate::service::{Running, free_address};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("benches/peers/search")
}

/// Starts the Node.js service; `None` if its packages were not fetched.
pub(super) fn start(filled: &Filled, recorded: &[Recorded], files: &TempDir) -> anyhow::Result<Option<Running>> {
    if !folder().join("node_modules/.package-lock.json").exists() {
        eprintln!("  search: the Node.js service is skipped; `npm ci` in benches/peers/search fetches its packages");
        return Ok(None);
    }
    let address = free_address()?;
    let kinds = recorded
        .iter()
        .filter(|(kind, _)| kind.is_mixed)
        .map(|(kind, statements)| {
            let statements: Vec<Value> = statements.iter().map(Statement::to_json).collect();
            let asked = asked(kind, &filled.samples);
            (asked, json!({ "name": kind.name, "statements": statements }))
        });
    let catalogue = catalogue::load(&filled.settings)?;
    let currencies = catalogue.list(&CurrencyFilter::default()).into_iter().map(|currency| {
        let known = json!({ "symbol": currency.symbol, "decimals": currency.decimals });
        (currency.id.clone(), known)
    });
    let told = json!({
        "port": address.port(),
        "postgresUrl": filled.database.url,
        "connections": load::CONNECTIONS,
        "keyHash": identify::hash(&filled.tenant.api_key),
        "clientId": filled.tenant.client_id,
        "currencies": currencies.collect::<Map<String, Value>>(),
        "kinds": kinds.collect::<Map<String, Value>>(),
    });
    let file = files.path().join("peer.json");
    std::fs::write(&file, told.to_string())?;
    let mut command = Command::new("node");
    command.arg("server.mjs").arg(file).current_dir(folder());
    Ok(Some(Running::start(command, address, "/health").context("the peer")?))
}

/// The query string of a kind of search, for the Node.js service. A parameter that has the same value in every sample
/// keeps its value; all other parameters are given by name only.
fn asked(kind: &Kind, samples: &[Sample]) -> String {
    let (one, other) = ((kind.query)(&samples[0]), (kind.query)(&samples[samples.len() - 1]));
    let parts = one.split('&').zip(other.split('&')).map(|(one, other)| {
        if one == other {
            one
        } else {
            one.split('=').next().unwrap_or(one)
        }
    });
    let parts: Vec<&str> = parts.collect();
    format!("{}{}", if kind.is_of_client { "client " } else { "" }, parts.join("&"))
}

/// Checks that the responses of the Node.js service match ours: the same payments, with the same fields.
pub(super) async fn compare(filled: &Filled, ours: SocketAddr, peer: SocketAddr) -> anyhow::Result<()> {
    let client = reqwest::Client::builder().no_proxy().build()?;
    for kind in mixed() {
        let mut answers = Vec::new();
        for address in [ours, peer] {
            let (name, credential) = filled.credential(kind);
            let get = client.get(format!("http://{address}{}", kind.path(&filled.samples[0])));
            let answer = get.header(name, credential).send().await?.error_for_status()?;
            answers.push(shape(&answer.json().await?));
        }
        ensure!(
            answers[0] == answers[1],
            "{}: ours {}, the peer {}",
            kind.name,
            answers[0],
            answers[1]
        );
    }
    Ok(())
}

/// A response without the parts that each side may write differently: the letter case of addresses, and cursors.
fn shape(answer: &Value) -> Value {
    match answer {
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| match name.as_str() {
                "nextCursor" => (name.clone(), Value::Bool(value.is_null())),
                _ => (name.clone(), shape(value)),
            })
            .collect(),
        Value::Array(entries) => entries.iter().map(shape).collect(),
        Value::String(text) => Value::String(text.to_lowercase()),
        other => other.clone(),
    }
}
