//! Finds statements that do not select one platform. In a database that is divided by platform, such a statement
//! queries all parts.

use std::collections::HashSet;

use super::{hot, judge::Finding, record::Statements};

/// Lists the statements about tables with an owner's column that do not select one owner.
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

/// Whether a statement writes an owner into the row, or looks for the rows of a given owner.
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
    fn a_statement_about_owned_rows_names_one_owner() {
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
