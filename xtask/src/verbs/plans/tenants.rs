//! Which statements name the platform that they are for, and which are for no single one: those cross all parts of a
//! database that is divided by platform.

use std::collections::HashSet;

use super::{hot, judge::Finding, record::Statements};

/// Statements about tables with such a column that do not ask for one owner.
pub(super) fn findings(statements: &Statements, tables: &HashSet<String>) -> Vec<Finding> {
    let about_owners = |text: &str| {
        let mut words = text.split(|letter: char| !letter.is_ascii_lowercase() && letter != '_');
        words.any(|word| tables.contains(word))
    };
    statements
        .iter()
        .filter_map(|(shape, samples)| Some((shape, samples.first()?)))
        .filter(|(shape, sample)| about_owners(shape) && !carries_owner(&sample.text))
        .map(|(shape, _)| (shape.clone(), "names no platform".to_owned()))
        .collect()
}

/// Whether a row that is written has an owner, or one that is looked for belongs to a given one.
fn carries_owner(text: &str) -> bool {
    let placeholders = text.matches('$').count();
    let looks_for = |key: &&str| (1..=placeholders).any(|number| hot::compared_with(text, number) == Some(*key));
    let writes = |key: &&str| text.starts_with("INSERT") && text.contains(*key);
    hot::OWNERS.iter().any(|key| writes(key) || looks_for(key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::plans::record::Sample;

    #[test]
    fn a_statement_about_rows_of_somebody_asks_for_one_owner() {
        let tables = HashSet::from(["payments".to_owned()]);
        let found = |text: &str| {
            let sample = Sample {
                text: text.to_owned(),
                values: Vec::new(),
            };
            let statements = Statements::from([(text.to_owned(), vec![sample])]);
            !findings(&statements, &tables).is_empty()
        };
        assert!(found("SELECT \"platform_id\" FROM \"payments\" WHERE \"id\" = $1"));
        assert!(found("UPDATE payments SET \"owner_id\" = \"other\" WHERE id = $1"));
        assert!(!found(
            "SELECT \"id\" FROM \"payments\" WHERE \"id\" = $1 AND \"payments\".\"platform_id\" = $2"
        ));
        assert!(!found(
            "INSERT INTO \"payments\" (\"id\", \"platform_id\") VALUES ($1, $2)"
        ));
        assert!(!found("SELECT \"id\" FROM \"rates\" WHERE \"id\" = $1"));
    }
}
