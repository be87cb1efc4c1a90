//! What a plan costs, and what it may cost.

use std::collections::HashSet;

use serde_json::Value;

/// What is wrong with a statement, after its shape.
pub(super) type Finding = (String, String);

/// Pages that a statement may touch for one row. Source: rules E.5.
const BUFFERS: u64 = 64;

/// Pages for each further row that it reads, and for each further entry of a list: two look-ups by a key.
const BUFFERS_READ: u64 = 12;

/// Pages for each further part of a union: a descent of its own.
const BUFFERS_PART: u64 = 8;

/// Pages for each row that it changes, with all its indexes.
const BUFFERS_CHANGED: u64 = 64;

/// A table with more rows is read by an index alone; of a smaller one, only pages count.
pub(crate) const LARGE_ROWS: u64 = 100_000;

/// What is wrong with the plan of a call whose lists have `entries` further entries; nothing when nothing is.
pub(crate) fn judge(plan: &Value, entries: usize, large: &HashSet<String>) -> Option<String> {
    let mut nodes = Vec::new();
    collect(plan, &mut nodes);
    let scanned = nodes.iter().find_map(|node| {
        let relation = text(node, "Relation Name");
        (text(node, "Node Type") == "Seq Scan" && large.contains(relation)).then_some(relation)
    });
    if let Some(relation) = scanned {
        return Some(format!("reads all of {relation}"));
    }
    let touched = count(plan, "Shared Hit Blocks") + count(plan, "Shared Read Blocks");
    let (read, changed) = nodes.iter().fold((rows(plan), 0), |(read, changed), node| {
        let below = || children(node).map(rows).max().unwrap_or_default();
        match text(node, "Node Type") {
            "ModifyTable" => (read, changed.max(below())),
            // What a limit lets through, and what was given to look for.
            "Limit" | "Function Scan" | "Values Scan" => (read.max(rows(node)), changed),
            _ => (read, changed),
        }
    });
    let parts: usize = nodes.iter().map(|node| parts(node)).sum();
    let parts = u64::try_from(parts).unwrap_or_default();
    let further = read.saturating_sub(1) + u64::try_from(entries).unwrap_or_default();
    let allowed = BUFFERS + BUFFERS_READ * further + BUFFERS_PART * parts + BUFFERS_CHANGED * changed;
    (touched > allowed).then(|| format!("touches {touched} pages for {read} rows read and {changed} changed"))
}

/// The names of the indexes that a plan reads by a condition on this column.
pub(crate) fn indexes_by(plan: &Value, column: &str) -> Vec<String> {
    let mut nodes = Vec::new();
    collect(plan, &mut nodes);
    nodes
        .into_iter()
        .filter(|node| text(node, "Index Cond").contains(column))
        .map(|node| text(node, "Index Name").to_owned())
        .collect()
}

fn collect<'p>(plan: &'p Value, nodes: &mut Vec<&'p Value>) {
    nodes.push(plan);
    for child in children(plan) {
        collect(child, nodes);
    }
}

fn children(plan: &Value) -> impl Iterator<Item = &Value> {
    plan.get("Plans").and_then(Value::as_array).into_iter().flatten()
}

/// Further parts of a union; those of a table that is divided are no parts of it.
fn parts(node: &Value) -> usize {
    let is_union = matches!(text(node, "Node Type"), "Append" | "Merge Append");
    let reads = |part: &Value| !text(part, "Relation Name").is_empty();
    match is_union && !children(node).all(reads) {
        true => children(node).count().saturating_sub(1),
        false => 0,
    }
}

fn rows(node: &Value) -> u64 {
    count(node, "Actual Rows") * count(node, "Actual Loops")
}

fn count(node: &Value, name: &str) -> u64 {
    node.get(name).and_then(Value::as_u64).unwrap_or_default()
}

fn text<'p>(node: &'p Value, name: &str) -> &'p str {
    node.get(name).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn verdict(plan: &Value) -> Option<String> {
        judge(plan, 0, &HashSet::from(["payments".to_owned()]))
    }

    #[test]
    fn a_large_table_is_never_read_whole_and_a_small_one_may_be() {
        let scan =
            |relation| json!({"Node Type": "Limit", "Plans": [{"Node Type": "Seq Scan", "Relation Name": relation}]});
        assert_eq!(verdict(&scan("payments")).unwrap(), "reads all of payments");
        assert_eq!(verdict(&scan("chain_leaders")), None);
    }

    #[test]
    fn pages_are_allowed_by_the_rows_that_come_out() {
        let plan = |kind, rows, pages| {
            json!({"Node Type": "Aggregate", "Actual Rows": 1, "Actual Loops": 1, "Shared Hit Blocks": pages,
                "Plans": [{"Node Type": kind, "Actual Rows": rows, "Actual Loops": 1}]})
        };
        assert_eq!(verdict(&plan("Index Scan", 10_000, 64)), None);
        assert!(verdict(&plan("Index Scan", 10_000, 65)).is_some());
        assert_eq!(verdict(&plan("Limit", 101, 1_264)), None);
        assert!(verdict(&plan("Limit", 101, 1_265)).is_some());
    }

    #[test]
    fn pages_are_allowed_by_the_parts_of_a_union_and_not_by_those_of_a_table() {
        let plan = |part: Value, pages| {
            json!({"Node Type": "Append", "Actual Rows": 0, "Actual Loops": 1, "Shared Hit Blocks": pages,
                "Plans": [part.clone(), part]})
        };
        let of_union =
            json!({"Node Type": "Limit", "Plans": [{"Node Type": "Index Scan", "Relation Name": "payments"}]});
        assert_eq!(verdict(&plan(of_union.clone(), 72)), None);
        assert!(verdict(&plan(of_union, 73)).is_some());
        let of_table = json!({"Node Type": "Index Scan", "Relation Name": "payments_2026_11"});
        assert!(verdict(&plan(of_table, 65)).is_some());
    }

    #[test]
    fn pages_are_allowed_by_the_rows_that_change() {
        let plan = |rows, pages| {
            json!({"Node Type": "ModifyTable", "Actual Rows": 0, "Actual Loops": 1, "Shared Hit Blocks": pages,
                "Plans": [{"Node Type": "Index Scan", "Actual Rows": rows, "Actual Loops": 1}]})
        };
        assert_eq!(verdict(&plan(2, 192)), None);
        assert!(verdict(&plan(1, 192)).is_some());
    }
}
