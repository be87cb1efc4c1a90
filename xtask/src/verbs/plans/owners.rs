//! Which statements change or lock rows without naming whose they are, in tables whose key begins with the owner: a database
//! that is divided by owner does none of them, and every other one reads all parts of the table. Source: ADR-0025.

use std::collections::BTreeMap;

use super::{judge::Finding, record::Statements};

/// Tables whose primary key begins with the owner, and the name of that column.
pub(super) type Keyed = BTreeMap<String, String>;

/// How a statement locks rows.
const LOCKS: [&str; 4] = [" FOR UPDATE", " FOR NO KEY UPDATE", " FOR SHARE", " FOR KEY SHARE"];

/// How it changes them. What it adds has an owner.
const WRITES: [&str; 2] = ["UPDATE ", "DELETE FROM "];

/// Statements that change rows of such a table without the owner, or lock those of more than one.
pub(super) fn findings(statements: &Statements, keyed: &Keyed) -> Vec<Finding> {
    let judged = statements.iter().filter_map(|(shape, samples)| {
        let text = samples.first()?.text.replace('"', "");
        Some((shape.clone(), finding(&text, keyed)?))
    });
    judged.collect()
}

/// What is wrong with a statement without its quotes.
fn finding(text: &str, keyed: &Keyed) -> Option<String> {
    let mut changes = WRITES.iter().flat_map(|verb| text.match_indices(verb));
    let unnamed = changes.find_map(|(at, verb)| {
        let (table, column, condition) = about(query_from(&text[at + verb.len()..]), keyed)?;
        let is_named = equals(condition, table, column).next().is_some() || is_in_tuple(condition, table, column);
        (!is_named).then(|| format!("changes rows of {table} without their {column}"))
    });
    let mut locks = LOCKS.iter().flat_map(|lock| text.match_indices(lock));
    let shared = || {
        locks.find_map(|(at, _)| {
            let (_, behind) = query_before(&text[..at]).split_once(" FROM ")?;
            let (table, column, condition) = about(behind, keyed)?;
            let is_one = equals(condition, table, column).any(|value| value.starts_with('$'));
            (!is_one).then(|| format!("locks rows of {table} that may have several of {column}"))
        })
    };
    unnamed.or_else(shared)
}

/// The table that a part of a statement begins with, where its key begins with the owner; that column; and the condition.
fn about<'t>(text: &'t str, keyed: &'t Keyed) -> Option<(&'t str, &'t str, &'t str)> {
    let (table, column) = keyed.get_key_value(first_word(text))?;
    let condition = text.split_once(" WHERE ").map_or("", |(_, condition)| condition);
    Some((table, column, condition))
}

fn first_word(text: &str) -> &str {
    let end = text.find(|letter: char| !letter.is_ascii_lowercase() && letter != '_');
    &text[..end.unwrap_or(text.len())]
}

/// A query up to where the parenthesis ends that it stands in.
fn query_from(text: &str) -> &str {
    let mut depth = 0_usize;
    for (at, letter) in text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' if depth == 0 => return &text[..at],
            ')' => depth -= 1,
            _ => {}
        }
    }
    text
}

/// A query from where the parenthesis begins that it stands in.
fn query_before(text: &str) -> &str {
    let mut depth = 0_usize;
    for (at, letter) in text.char_indices().rev() {
        match letter {
            ')' => depth += 1,
            '(' if depth == 0 => return &text[at + 1..],
            '(' => depth -= 1,
            _ => {}
        }
    }
    text
}

/// What a column of a table is compared with by equality.
fn equals<'t>(condition: &'t str, table: &'t str, column: &'t str) -> impl Iterator<Item = &'t str> {
    named(condition, table, column).filter_map(|behind| behind.strip_prefix(" = "))
}

/// Whether a column begins a tuple that is one of several, or equals another one.
fn is_in_tuple(condition: &str, table: &str, column: &str) -> bool {
    let tuples = named(condition, table, column).filter_map(|behind| behind.strip_prefix(", "));
    let mut behind = tuples.map(|rest| &rest[query_from(rest).len()..]);
    behind.any(|behind| behind.starts_with(") IN (SELECT") || behind.starts_with(") = ("))
}

/// What stands behind each mention of a column, by itself or as that of its table.
fn named<'t>(condition: &'t str, table: &'t str, column: &'t str) -> impl Iterator<Item = &'t str> {
    condition.match_indices(column).filter_map(move |(at, _)| {
        let (before, behind) = (&condition[..at], &condition[at + column.len()..]);
        let is_whole =
            |text: &str| !text.ends_with(|letter: char| letter.is_ascii_lowercase() || "_.".contains(letter));
        let of_table = before.strip_suffix('.').and_then(|before| before.strip_suffix(table));
        (is_whole(before) || of_table.is_some_and(is_whole)).then_some(behind)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::plans::record::Sample;

    fn found(text: &str) -> Option<String> {
        let keyed = Keyed::from(
            [("requests", "platform_id"), ("events", "owner_id")]
                .map(|(table, column)| (table.to_owned(), column.to_owned())),
        );
        let sample = Sample {
            text: text.to_owned(),
            values: Vec::new(),
        };
        let statements = Statements::from([(text.to_owned(), vec![sample])]);
        findings(&statements, &keyed)
            .into_iter()
            .next()
            .map(|(_, finding)| finding)
    }

    #[test]
    fn a_change_without_the_owner_is_refused() {
        let refused = |text: &str| assert!(found(text).is_some_and(|why| why.starts_with("changes rows")), "{text}");
        refused("UPDATE \"requests\" SET \"status\" = $1 WHERE \"requests\".\"id\" = $2");
        refused("UPDATE \"requests\" SET \"platform_id\" = $1 WHERE \"requests\".\"id\" = $2");
        refused("DELETE FROM events WHERE id IN (SELECT id FROM other WHERE other.owner_id = $1)");
        refused("WITH gone AS (DELETE FROM events WHERE id = $1 RETURNING id) SELECT 1 FROM queue WHERE owner_id = $2");
        for fine in [
            "UPDATE \"requests\" SET \"status\" = $1 WHERE \"requests\".\"platform_id\" = $2 AND \"requests\".\"id\" = $3",
            "UPDATE requests SET status = given.column2 FROM (VALUES ($1, $2)) AS given WHERE requests.platform_id = given.column1",
            "UPDATE \"events\" SET \"body\" = $1 WHERE CAST(body AS TEXT) = $2 AND (\"owner_id\", \"id\") = ($3, $4)",
            "DELETE FROM events WHERE (owner_id, id) IN (SELECT owner_id, id FROM events LIMIT $1)",
            "DELETE FROM \"rates\" WHERE \"rates\".\"id\" = $1",
            "INSERT INTO \"events\" (\"owner_id\") VALUES ($1) ON CONFLICT (\"owner_id\") DO UPDATE SET \"body\" = $2",
        ] {
            assert_eq!(found(fine), None, "{fine}");
        }
    }

    #[test]
    fn a_lock_on_rows_of_several_owners_is_refused() {
        let refused = |text: &str| assert!(found(text).is_some_and(|why| why.starts_with("locks rows")), "{text}");
        refused("SELECT \"id\" FROM \"requests\" WHERE \"requests\".\"platform_id\" IN ($1, $2) FOR NO KEY UPDATE");
        refused("SELECT \"id\" FROM \"requests\" WHERE \"requests\".\"status\" = $1 LIMIT $2 FOR UPDATE SKIP LOCKED");
        refused("SELECT 1 FROM queue WHERE owner_id = $1 AND id = (SELECT id FROM events WHERE id = $2 FOR UPDATE)");
        for fine in [
            "SELECT \"id\" FROM \"requests\" WHERE \"requests\".\"platform_id\" = $1 ORDER BY \"requests\".\"id\" ASC FOR NO KEY UPDATE",
            "SELECT id FROM queue WHERE id = ANY(ARRAY(SELECT id FROM chosen)) FOR UPDATE SKIP LOCKED",
            "SELECT \"id\" FROM \"requests\" WHERE \"requests\".\"status\" = $1",
        ] {
            assert_eq!(found(fine), None, "{fine}");
        }
    }
}
