//! Finds statements that change or lock rows without a condition on the owner, in tables whose primary key begins with
//! the owner. If the database is divided by owner, it cannot execute such a statement. A read without the owner would
//! query all parts of the table. Source: ADR-0025.

use std::collections::BTreeMap;

use super::{judge::Finding, record::Statements};

/// The tables whose primary key begins with the owner, each with the name of that column.
pub(super) type Keyed = BTreeMap<String, String>;

/// The clauses with which a statement locks rows.
const LOCKS: [&str; 4] = [" FOR UPDATE", " FOR NO KEY UPDATE", " FOR SHARE", " FOR KEY SHARE"];

/// First words of statements that change rows. Inserts are not listed, because an inserted row contains its owner.
const WRITES: [&str; 3] = ["UPDATE ", "DELETE FROM ", "MERGE INTO "];

/// Lists two kinds of statements about these tables: those that change rows without a condition on the owner, and those
/// that lock rows of several owners.
pub(super) fn findings(statements: &Statements, keyed: &Keyed) -> Vec<Finding> {
    let judged = statements.iter().filter_map(|(shape, samples)| {
        let words: Vec<&str> = samples.first()?.text.split_whitespace().collect();
        let text = words.join(" ").replace('"', "");
        Some((shape.clone(), finding(&text, keyed)?))
    });
    judged.collect()
}

/// The problem of a statement, if any. The statement has no quotes, and one space between its words.
fn finding(text: &str, keyed: &Keyed) -> Option<String> {
    let mut changes = WRITES.iter().flat_map(|verb| text.match_indices(verb));
    let unnamed = changes.find_map(|(at, verb)| {
        let query = query_from(&text[at + verb.len()..]);
        let (table, column, name) = target(query, keyed)?;
        let is_named = terms(condition(query)).any(|term| names_owner(term, name, column));
        (!is_named).then(|| format!("changes rows of {table} without their {column}"))
    });
    let mut locks = LOCKS.iter().flat_map(|lock| text.match_indices(lock));
    let shared = || {
        locks.find_map(|(at, _)| {
            let query = query_before(&text[..at]);
            let tables = split_outside(query, " FROM ").nth(1)?;
            let tables = split_outside(tables, " WHERE ").next()?;
            let mut locked = tables.split(", ").flat_map(|table| table.split(" JOIN "));
            locked.find_map(|table| {
                let (table, column, name) = target(table, keyed)?;
                let is_one = terms(condition(query)).any(|term| compared(term, name, column).is_some_and(is_given));
                (!is_one).then(|| format!("locks rows of {table} that may have several of {column}"))
            })
        })
    };
    unnamed.or_else(shared)
}

/// If the text begins with one of these tables: the table, its owner's column, and the alias of the table. `None`
/// otherwise.
fn target<'t>(text: &'t str, keyed: &'t Keyed) -> Option<(&'t str, &'t str, &'t str)> {
    let text = text.strip_prefix("ONLY ").unwrap_or(text);
    let text = text.strip_prefix("public.").unwrap_or(text);
    let (table, column) = keyed.get_key_value(first_word(text))?;
    let alias = text[table.len()..].strip_prefix(" AS ").map(first_word);
    Some((table, column, alias.unwrap_or(table)))
}

fn first_word(text: &str) -> &str {
    let end = text.find(|letter: char| !letter.is_ascii_lowercase() && letter != '_');
    &text[..end.unwrap_or(text.len())]
}

/// The condition of a query's own `WHERE`, without those of its subqueries.
fn condition(query: &str) -> &str {
    let behind = split_outside(query, " WHERE ").nth(1).unwrap_or_default();
    let ends = [" RETURNING ", " ORDER BY ", " LIMIT ", " GROUP BY "];
    ends.iter()
        .fold(behind, |text, end| split_outside(text, end).next().unwrap_or(text))
}

/// The terms of a condition that are joined by `AND`. Empty if the terms are joined by `OR`.
fn terms(condition: &str) -> Box<dyn Iterator<Item = &str> + '_> {
    let is_whole = condition.starts_with('(') && query_from(&condition[1..]).len() + 2 == condition.len();
    if is_whole {
        return terms(&condition[1..condition.len() - 1]);
    }
    let mut parts = split_outside(condition, " AND ").peekable();
    let first = parts.next().unwrap_or_default();
    if parts.peek().is_some() {
        return Box::new(std::iter::once(first).chain(parts).flat_map(terms));
    }
    let is_choice = split_outside(condition, " OR ").nth(1).is_some();
    Box::new((!is_choice).then_some(condition).into_iter())
}

/// The parts of a text between separators; separators inside parentheses do not count.
fn split_outside<'t>(text: &'t str, separator: &'t str) -> impl Iterator<Item = &'t str> {
    let is_outside = |at: usize| text[..at].matches('(').count() == text[..at].matches(')').count();
    let ends = text.match_indices(separator).map(|(at, _)| at);
    let ends: Vec<usize> = ends.filter(|at| is_outside(*at)).chain([text.len()]).collect();
    let mut begin = 0;
    ends.into_iter().map(move |end| {
        let part = &text[begin..end];
        begin = end + separator.len();
        part
    })
}

/// Whether a term compares the owner's column of a table with a value or with the column of a joined table.
fn names_owner(term: &str, name: &str, column: &str) -> bool {
    let of_another = |value: &str| !value.starts_with(name) && value.contains('.');
    compared(term, name, column).is_some_and(|value| is_given(value) || of_another(value))
        || is_of_key(term, name, column)
}

/// The value or column with which a term compares a column of a table for equality.
fn compared<'t>(term: &'t str, name: &str, column: &str) -> Option<&'t str> {
    behind(term, name, column)?.strip_prefix(" = ")
}

fn is_given(value: &str) -> bool {
    value.starts_with('$')
}

/// Whether a term compares several columns at once with a key, and the first of these columns is this one.
fn is_of_key(term: &str, name: &str, column: &str) -> bool {
    let key = term.strip_prefix('(').and_then(|term| behind(term, name, column));
    let rest = key.and_then(|key| key.strip_prefix(", "));
    let compared = rest.map(|rest| &rest[query_from(rest).len()..]);
    compared.is_some_and(|rest| rest.starts_with(") IN (SELECT") || rest.starts_with(") = ("))
}

/// The text that follows the column at the beginning of a term. The column may be preceded by the name of the table.
fn behind<'t>(term: &'t str, name: &str, column: &str) -> Option<&'t str> {
    let of_table = term.strip_prefix(name).and_then(|term| term.strip_prefix('.'));
    of_table.unwrap_or(term).strip_prefix(column)
}

/// The text of a query up to the parenthesis that closes it.
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

/// The text of a query after the parenthesis that opens it.
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
        refused("DELETE FROM events WHERE owner_id = $1 OR created_at < $2");
        refused("DELETE FROM events WHERE (owner_id = $1 OR created_at < $2) AND id = $3");
        refused("UPDATE requests SET status = $1 WHERE NOT (requests.platform_id = $2)");
        refused("UPDATE requests SET status = (SELECT 1 FROM other WHERE platform_id = $1) WHERE id = $2");
        refused("DELETE FROM events WHERE id IN (SELECT event_id FROM deliveries WHERE owner_id = $1)");
        refused("UPDATE requests SET status = $1 WHERE platform_id = platform_id");
        refused("UPDATE ONLY public.requests SET status = $1\n WHERE id = $2");
        refused("MERGE INTO requests USING other ON other.id = requests.id WHEN MATCHED THEN DELETE");
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
        refused("SELECT id FROM requests\nWHERE status = $1\nFOR UPDATE");
        refused("SELECT id FROM requests WHERE platform_id = $1 OR id = $2 FOR UPDATE");
        refused("SELECT 1 FROM queue JOIN events ON events.id = queue.id WHERE queue.owner_id = $1 FOR UPDATE");
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
