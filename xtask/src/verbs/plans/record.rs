//! Reads the statements of a test run from the log of the server.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use anyhow::Result;
use xtask::machine::postgres;

/// The application name of the service; tests and migrations use other names.
const SERVICE: &str = "prs";

/// Maximum number of recorded calls of one statement. Two recorded calls always differ in the words among their values.
const SAMPLES_MAX: usize = 6;

/// First words of the statements that are checked. Statements that control transactions and sessions begin with other
/// words.
const VERBS: [&str; 5] = ["SELECT", "WITH", "INSERT", "UPDATE", "DELETE"];

/// One call of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sample {
    /// The text with its placeholders.
    pub(crate) text: String,
    /// Literals for the placeholders, in order.
    pub(crate) values: Vec<String>,
}

/// A call to explain: the shape of its statement, the recorded call, and the values with which it is executed.
pub(super) type Call<'s> = (&'s str, &'s Sample, Vec<String>);

/// All stored calls, by the shape of their statement.
pub(crate) type Statements = BTreeMap<String, Vec<Sample>>;

/// Reads the log of a recording server.
pub(crate) fn read(log: &Path) -> Result<Statements> {
    let mut statements = Statements::new();
    let mut seen = HashSet::new();
    let mut entry = Vec::new();
    let mut pending: Option<Sample> = None;
    let mut lines = BufReader::new(File::open(log)?).split(b'\n');
    loop {
        let line = lines.next().transpose()?;
        if let (Some(line), false) = (&line, entry.is_empty())
            && line.first() == Some(&b'\t')
        {
            entry.push(b'\n');
            entry.extend_from_slice(&line[1..]);
            continue;
        }
        let text = String::from_utf8_lossy(&entry).into_owned();
        if let Some(values) = parameters(&text) {
            if let Some(mut sample) = pending.take() {
                sample.values = values;
                keep(&mut statements, &mut seen, sample);
            }
        } else {
            if let Some(sample) = pending.take() {
                keep(&mut statements, &mut seen, sample);
            }
            pending = statement(&text).map(|text| Sample {
                text: text.to_owned(),
                values: Vec::new(),
            });
        }
        let Some(line) = line else { break };
        entry = line;
    }
    if let Some(sample) = pending {
        keep(&mut statements, &mut seen, sample);
    }
    Ok(statements)
}

fn keep(statements: &mut Statements, seen: &mut HashSet<String>, sample: Sample) {
    let shape = shape(&sample.text);
    if seen.insert(format!("{shape}\n{}", words(&sample.values))) {
        let samples = statements.entry(shape).or_default();
        if samples.len() < SAMPLES_MAX {
            samples.push(sample);
        }
    }
}

/// First words of prepared statements that belong to the tests themselves. Other statements of tests have no
/// placeholders or no quoted names.
const OF_TESTS: [&str; 7] = [
    "SELECT CAST(COUNT(*) AS BIGINT) AS rows FROM ",
    "UPDATE accounts SET email = $1, email_hash = NULL",
    "UPDATE events SET body = $1 WHERE id = $2",
    "UPDATE platforms SET name = $1 WHERE id = (SELECT ",
    "UPDATE requests SET customer = $1 WHERE request_id = $2",
    "UPDATE secure_payments SET payer_identifier = $1 WHERE",
    "UPDATE secure_payments SET recipient_identifier = $1 WHERE",
];

/// The text of a statement, if the log entry is about a prepared statement of the service.
fn statement(entry: &str) -> Option<&str> {
    let (program, message) = postgres::recorded(entry)?;
    let (_, text) = message.strip_prefix("LOG:  execute ")?.split_once(": ")?;
    let begins = |beginning: &&str| text.starts_with(*beginning);
    let is_ours = program == SERVICE && VERBS.iter().any(begins) && !OF_TESTS.iter().any(begins);
    (is_ours && (text.contains('$') || text.contains('"'))).then_some(text)
}

/// The values in a log line such as `DETAIL:  parameters: $1 = 'a', $2 = NULL`, as SQL literals.
fn parameters(entry: &str) -> Option<Vec<String>> {
    let (_, message) = postgres::recorded(entry)?;
    let mut rest = message.strip_prefix("DETAIL:  parameters: ")?;
    let mut values = Vec::new();
    while let Some((_, value)) = rest.split_once(" = ") {
        let end = end_of_literal(value);
        values.push(value[..end].to_owned());
        rest = &value[end..];
    }
    Some(values)
}

/// Length of the literal at the start of a text: `NULL`, or a text in quotes, in which a quote is doubled.
fn end_of_literal(text: &str) -> usize {
    let Some(inside) = text.strip_prefix('\'') else {
        return text.find(',').unwrap_or(text.len());
    };
    let mut quotes = inside.char_indices().filter(|(_, letter)| *letter == '\'').peekable();
    while let Some((at, _)) = quotes.next() {
        match quotes.peek() {
            Some((next, _)) if *next == at + 1 => quotes.next(),
            _ => return at + 2,
        };
    }
    text.len()
}

/// The shape of a statement: its text without the numbers of its placeholders and without the lengths of its lists.
pub(crate) fn shape(text: &str) -> String {
    let mut shape = String::with_capacity(text.len());
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        shape.push(letter);
        if letter == '$' {
            while letters.next_if(char::is_ascii_digit).is_some() {}
        }
    }
    for (repeated, once) in [("$, $", "$"), ("($), ($)", "($)")] {
        while shape.contains(repeated) {
            shape = shape.replace(repeated, once);
        }
    }
    let mut cases: Vec<&str> = shape.split(" WHEN ").collect();
    cases.dedup();
    cases.join(" WHEN ")
}

/// The values that distinguish two calls of one statement: words, small numbers and nulls. Keys and times are left out.
fn words(values: &[String]) -> String {
    let word = |value: &String| match value.trim_matches('\'') {
        text if text == "NULL" || text.len() <= 4 => text.to_owned(),
        text if text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_') => text.to_owned(),
        _ => "*".to_owned(),
    };
    values.iter().map(word).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_any_length_have_one_shape() {
        assert_eq!(shape("a IN ($1, $2, $3) LIMIT $4"), "a IN ($) LIMIT $");
        assert_eq!(shape("VALUES ($1, $2), ($3, $4), ($5, $6)"), "VALUES ($)");
        let case = |whens: &str| shape(&format!("CASE{whens} WHEN a = $5 THEN $6 END"));
        assert_eq!(
            case(" WHEN a = $1 THEN $2 WHEN a = $3 THEN $4"),
            case(" WHEN a = $1 THEN $2")
        );
    }

    #[test]
    fn literals_end_where_their_quotes_end() {
        let entry = "@prs@ DETAIL:  parameters: $1 = 'it''s, $2 = ''x''', $2 = NULL, $3 = '', $4 = '7'";
        assert_eq!(parameters(entry).unwrap(), ["'it''s, $2 = ''x'''", "NULL", "''", "'7'"]);
    }

    #[test]
    fn statements_of_the_service_are_read_with_their_values() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let text = "noise\n\
            @prs@ LOG:  execute sqlx_s_1: SELECT \"a\"\n\tFROM b WHERE c = $1\n\
            @prs@ DETAIL:  parameters: $1 = 'two\n\tlines'\n\
            @prs@ LOG:  execute sqlx_s_1: SELECT \"a\"\n\tFROM b WHERE c = $1\n\
            @prs@ DETAIL:  parameters: $1 = 'Further lines'\n\
            @psql@ LOG:  execute s: SELECT $1\n\
            @prs@ LOG:  statement: SELECT 1\n\
            @prs@ LOG:  execute s: SELECT count(*) FROM b\n\
            @prs@ LOG:  execute s: BEGIN\n";
        std::fs::write(&log, text).unwrap();
        let statements = read(&log).unwrap();
        let sample = Sample {
            text: "SELECT \"a\"\nFROM b WHERE c = $1".to_owned(),
            values: vec!["'two\nlines'".to_owned()],
        };
        let wanted = ("SELECT \"a\"\nFROM b WHERE c = $".to_owned(), vec![sample]);
        assert_eq!(statements.into_iter().collect::<Vec<_>>(), [wanted]);
    }
}
