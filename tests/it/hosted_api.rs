//! Checks the migration guide for users of the hosted API. Every test that a line names must exist, and every operation
//! that the guide lists as missing must be missing.

use crate::support::TestApp;
use poem::http::Method;
use serde_json::json;
use std::{collections::BTreeSet, path::Path};

const GUIDE: &str = include_str!("../../docs/guides/coming-from-the-hosted-api.md");

/// Operations of the published interface that are not implemented yet.
fn later() -> BTreeSet<String> {
    let list: toml::Table = include_str!("../../openapi/deviations.toml").parse().expect("TOML");
    let rows = list["not_yet"].as_array().expect("rows").iter();
    rows.map(|row| row["operation"].as_str().expect("text").to_owned())
        .collect()
}

#[tokio::test]
async fn unimplemented_operations_are_listed_and_return_404() {
    let (_, section) = GUIDE.split_once("## Not implemented yet").expect("a section");
    let listed = section
        .lines()
        .filter_map(|line| line.strip_prefix("- `")?.strip_suffix('`'));
    let listed: BTreeSet<String> = listed.map(str::to_owned).collect();
    assert_eq!(listed, later());
    let app = TestApp::start().await;
    for operation in listed {
        let (method, path) = operation.split_once(' ').expect("method and path");
        let method: Method = method.parse().expect("a method");
        let path = path.replace(['{', '}'], "");
        let answer = app.call(method, &path).with_key().json(&json!({})).send().await;
        let body = answer.expect(404);
        assert_eq!(body["statusCode"], 404, "{operation}");
        assert_eq!(answer.header("allow"), None, "{operation}");
        assert_eq!(body["message"], format!("Cannot {operation}").replace(['{', '}'], ""));
    }
}

/// Whether a file has a test of this name.
fn is_there(file: &str, name: &str) -> bool {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let start = format!("fn {name}(");
    let mut found = (0..lines.len()).filter(|at| lines[*at].trim_start_matches("async ").starts_with(&start));
    found.any(|at| {
        let mut attributes = lines[..at].iter().rev().take_while(|line| line.starts_with("#["));
        attributes.any(|line| line.ends_with("test]"))
    })
}

#[test]
fn every_line_names_existing_tests() {
    let mut count = 0;
    let mut is_table = false;
    for line in GUIDE.lines() {
        let Some(row) = line.strip_prefix("| ").and_then(|row| row.strip_suffix(" |")) else {
            // The separator between the header and the rows.
            is_table &= line.starts_with("|---");
            continue;
        };
        let (said, tests) = row.rsplit_once(" | ").expect("cells");
        if !is_table {
            assert_eq!(tests, "tested by", "{line}");
            is_table = true;
            continue;
        }
        for test in tests.split(", ") {
            let name = test.strip_prefix('`').and_then(|test| test.strip_suffix('`'));
            let (file, name) = name.and_then(|name| name.split_once("::")).unwrap_or((test, ""));
            assert!(is_there(file, name), "{said}: there is no test {test}");
            count += 1;
        }
    }
    assert!(count > 60, "{count}");
    assert!(
        !is_there("tests/it/hosted_api.rs", "is_there"),
        "a function that is not a test does not count"
    );
}
