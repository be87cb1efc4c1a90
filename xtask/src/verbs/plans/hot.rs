//! Replaces the values of a test with the values that most rows share. A query that is cheap for a new platform must
//! also be cheap for the platform that has half of all rows.

use std::collections::BTreeMap;

use super::record::Sample;

/// The columns that name the owner of a row.
pub(crate) const OWNERS: [&str; 2] = ["platform_id", "owner_id"];

/// Columns in which the value of a test is replaced with the most frequent value of the column. Columns with words,
/// such as states and kinds, keep their value.
pub(crate) const COLUMNS: [&str; 7] = [
    "platform_id",
    "owner_id",
    "client_row",
    "endpoint_id",
    "wallet",
    "payee",
    "group_key",
];

/// The most frequent value of each column, as a literal.
pub(crate) type Frequent = BTreeMap<String, String>;

/// The values of a recorded call. A value for one of these columns is replaced with the most frequent value of the
/// column.
pub(crate) fn heated(sample: &Sample, columns: &[&str], frequent: &Frequent) -> Vec<String> {
    let mut values = sample.values.clone();
    for (at, value) in values.iter_mut().enumerate() {
        let column = compared_with(&sample.text, at + 1).filter(|column| columns.contains(column));
        let hot = column.and_then(|column| frequent.get(column));
        if let Some(hot) = hot {
            value.clone_from(hot);
        }
    }
    values
}

/// The column that a statement compares with placeholder `number`. Recognised forms are `"wallet" = $2`, `wallet=$2`
/// and `"wallet" IN ($1, $2)`.
pub(crate) fn compared_with(text: &str, number: usize) -> Option<&str> {
    let placeholder = format!("${number}");
    let (at, _) = text
        .match_indices(&placeholder)
        .find(|(at, _)| !text[at + placeholder.len()..].starts_with(|letter: char| letter.is_ascii_digit()))?;
    let before = text[..at].trim_end_matches(|letter: char| letter.is_ascii_digit() || "$, ".contains(letter));
    let before = before.strip_suffix('=').or_else(|| before.strip_suffix("IN ("))?;
    let before = before.trim_end().trim_end_matches('"');
    let begins = before.rfind(|letter: char| !letter.is_ascii_lowercase() && letter != '_');
    Some(&before[begins.map_or(0, |at| at + 1)..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_values_compared_with_a_column_are_replaced() {
        let sample = Sample {
            text: "SELECT $1 FROM t WHERE \"t\".\"wallet\" = $2 AND owner_id=$3 AND payee <> $4 AND \"payee\" IN ($5, $6) \
                   AND (kind = $7 OR wallet = $20)"
                .to_owned(),
            values: ["a", "b", "c", "d", "e", "f", "g"].map(str::to_owned).to_vec(),
        };
        let frequent = ["wallet", "owner_id", "payee"].map(|column| (column.to_owned(), column.to_uppercase()));
        let hot = heated(&sample, &COLUMNS, &Frequent::from(frequent));
        assert_eq!(hot, ["a", "WALLET", "OWNER_ID", "d", "PAYEE", "PAYEE", "g"]);
    }
}
