//! Writes Bruno collections from the documents with Bruno's own program, and sends one request of them.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::language::{installed, said};

/// Name on the command line.
pub(super) const NAME: &str = "collection";

/// The documents from which collections are written. Each has the name of its collection, which is also the
/// collection's folder.
const COLLECTIONS: [(&str, &str); 2] = [("v2", "payment-requests"), ("auth", "payment-requests-auth")];

/// The request of the collection that is sent as a check, by its file name in Bruno.
const SENT: &str = "Requests/Create a request.bru";

/// Writes the collections and sends one request of the first; returns a summary.
pub(super) fn run(documents: &Path, service: &Path, out: Option<&Path>) -> Result<String> {
    let folder = installed(NAME, "Bruno")?;
    let place = out.unwrap_or(&folder);
    fs::create_dir_all(place)?;
    let bruno = folder.join("node_modules/.bin/bru");
    let mut requests = 0;
    for (document, name) in COLLECTIONS {
        let collection = place.join(name);
        let _ = fs::remove_dir_all(&collection);
        let mut import = Command::new(&bruno);
        import.args([
            "import",
            "openapi",
            "--collection-format",
            "bru",
            "--collection-name",
            name,
        ]);
        import
            .arg("--source")
            .arg(documents.join(document).with_extension("json"));
        import.arg("--output").arg(place);
        said(&mut import)?;
        requests += count(&collection)?;
    }

    let ready: Value = serde_json::from_str(&fs::read_to_string(service)?)?;
    let member = |name: &str| {
        ready[name]
            .as_str()
            .with_context(|| format!("`prs dev --json` names no {name}"))
    };
    let report = folder.join("sent.json");
    let mut send = Command::new(&bruno);
    let [(_, collection), _] = COLLECTIONS;
    send.current_dir(place.join(collection)).args(["run", SENT]);
    send.arg("--env-var").arg(format!("baseUrl={}", member("baseUrl")?));
    send.arg("--env-var").arg(format!("apiKey={}", member("apiKey")?));
    send.arg("--reporter-json").arg(&report);
    said(&mut send)?;
    let report: Value = serde_json::from_str(&fs::read_to_string(&report)?)?;
    let status = report
        .pointer("/0/results/0/response/status")
        .or_else(|| report.pointer("/results/0/response/status"));
    if status != Some(&Value::from(201)) {
        bail!("`{SENT}` returned {status:?}");
    }
    Ok(format!(
        "{requests} requests in {} collections below {}; `{SENT}` returned 201",
        COLLECTIONS.len(),
        place.display()
    ))
}

/// Number of requests in the folders of a collection.
fn count(collection: &Path) -> Result<usize> {
    let mut requests = 0;
    for group in fs::read_dir(collection)? {
        let group = group?.path();
        if group.is_dir() && !group.ends_with("environments") {
            let files = fs::read_dir(&group)?
                .filter_map(Result::ok)
                .map(|entry| entry.file_name());
            requests += files.filter(|name| *name != *"folder.bru").count();
        }
    }
    Ok(requests)
}
