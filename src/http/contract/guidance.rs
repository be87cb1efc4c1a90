//! Describes for each operation when to call it, what it needs, which operation comes next and which events follow.
//!
//! The lines `When: an order is placed`, `Needs: …`, `Next: …` and `Events: …` in the doc comment of an operation
//! become a list in its description. The accepted credentials come from the access table.

use crate::http::gate::{
    access,
    scheme::{PolicyMark, Scheme},
};
use serde_json::Value;

/// The line prefixes, in output order.
const TOLD: [&str; 4] = ["When", "Needs", "Next", "Events"];

/// Turns the lines into a list.
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
    // A client ID with allowed domains is public, because anyone can read it in a page.
    let is_closed_to_pages = row.is_some_and(|row| row.marks.contains(&PolicyMark::Secret));
    let carriers: Vec<String> = accepted
        .iter()
        .map(|scheme| match scheme {
            Scheme::ClientId if is_closed_to_pages => {
                format!("{} of a client ID without allowed domains", scheme.in_words("`"))
            }
            _ => scheme.in_words("`"),
        })
        .collect();
    if carriers.is_empty() {
        "no credential".to_owned()
    } else {
        carriers.join(" or ")
    }
}
