//! Tells of each operation when it is called, what it needs, what comes next and which events follow.
//!
//! Lines of its doc comment say so (`When: an order is placed`, `Needs: …`, `Next: …`, `Events: …`) and become a list.
//! Which credential opens the operation is read off the access table.

use crate::http::gate::{
    access,
    scheme::{Mark, Scheme},
};
use serde_json::Value;

/// What is told, in its order, as the lines begin.
const TOLD: [&str; 4] = ["When", "Needs", "Next", "Events"];

/// Makes a list of the lines.
pub(super) fn finish(operation: &mut Value) {
    let text = operation["description"].as_str().unwrap_or_default();
    let told = |line: &str| TOLD.iter().any(|name| after(name, line).is_some());
    let prose: Vec<&str> = text.lines().filter(|line| !told(line)).collect();
    let list = TOLD.iter().filter_map(|name| {
        let said = text.lines().find_map(|line| after(name, line));
        let said = match *name {
            "Needs" => Some(
                [Some(credentials(operation)), said.map(str::to_owned)]
                    .into_iter()
                    .flatten()
                    .collect(),
            ),
            _ => said.map(|said| vec![said.to_owned()]),
        };
        said.map(|said: Vec<String>| format!("- **{name}**: {}", said.join("; ")))
    });
    let list: Vec<String> = list.collect();
    operation["description"] = format!("{}\n\n{}", prose.join("\n").trim_end(), list.join("\n")).into();
}

fn after<'a>(name: &str, line: &'a str) -> Option<&'a str> {
    line.strip_prefix(name)?.strip_prefix(": ")
}

fn credentials(operation: &Value) -> String {
    let row = operation["operationId"].as_str().and_then(access::row);
    let accepted = row.map_or(&[][..], |row| row.any_of);
    // A client ID with allowed domains stands in pages, where everybody reads it.
    let is_closed_to_pages = row.is_some_and(|row| row.marks.contains(&Mark::Secret));
    let carriers: Vec<String> = accepted
        .iter()
        .map(|scheme| match scheme {
            Scheme::ClientId if is_closed_to_pages => {
                format!("`{}` of a client ID without allowed domains", scheme.in_words())
            }
            _ => format!("`{}`", scheme.in_words()),
        })
        .collect();
    match carriers.is_empty() {
        true => "no credential".to_owned(),
        false => carriers.join(" or "),
    }
}
