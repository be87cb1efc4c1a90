//! The cost of a plan, and its limits.

use std::collections::HashSet;

use serde_json::Value;

/// A finding: the problem, and the shape of the statement that has it.
pub(super) type Finding = (String, String);

/// Maximum number of pages that a statement may touch to find one row. Source: rules E.5.
const BUFFERS: u64 = 64;

/// Maximum number of further pages for each further row that a statement reads, and for each further entry of a list in
/// its values. Two index lookups touch about this number.
const BUFFERS_READ: u64 = 12;

/// Maximum number of further pages for each further part of a union, which needs one more index lookup.
const BUFFERS_PART: u64 = 8;

/// Maximum number of further pages for each row that a statement changes; the pages of all indexes are included.
const BUFFERS_CHANGED: u64 = 64;

/// Number of rows from which on a statement must read a table by an index. For smaller tables, only the number of pages
/// is limited.
pub(crate) const LARGE_ROWS: u64 = 100_000;

/// The problem of a plan; `None` if there is none. `entries` is the number of list entries in the call, without the
/// first entry of each list.
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
            // Counts the rows that pass a limit, and the list entries to look up.
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

/// The names of the indexes that a plan reads with a condition on this column.
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

/// Number of parts of a union after the first. The partitions of a table do not count as parts.
fn parts(node: &Value) -> usize {
    let is_union = matches!(text(node, "Node Type"), "Append" | "Merge Append");
    let reads = |part: &Value| !text(part, "Relation Name").is_empty();
    if is_union && !children(node).all(reads) {
        children(node).count().saturating_sub(1)
    } else {
        0
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
