//! Exports: rows for programs and for spreadsheets.

use super::wire_text::wire_text;
use std::borrow::Cow;

wire_text! {
    /// What an export is written as.
    pub enum ExportFormat {
        /// A header and a line of cells for each row.
        Csv = "csv",
        /// A line of JSON for each row.
        Jsonl = "jsonl",
    }
}

/// With these a spreadsheet begins a formula, or hides that it does.
const SIGNS: [char; 7] = ['=', '+', '-', '@', '\t', '\r', '\''];

/// A cell that no spreadsheet takes for a formula: one `'` stands before a text that begins with a sign of formulas or with
/// `'` itself. Whoever takes one `'` away from each cell that begins with it has the texts again.
#[must_use]
pub fn defused(cell: &str) -> Cow<'_, str> {
    if cell.starts_with(SIGNS) {
        Cow::Owned(format!("'{cell}"))
    } else {
        Cow::Borrowed(cell)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_what_begins_with_a_sign_changes() {
        for (text, cell) in [
            ("=1+1", "'=1+1"),
            ("'quoted'", "''quoted'"),
            ("\t=1", "'\t=1"),
            ("-5", "'-5"),
            ("a=1", "a=1"),
            ("", ""),
        ] {
            assert_eq!(defused(text), cell);
        }
    }

    proptest! {
        #[test]
        fn a_cell_is_no_formula_and_gives_its_text_back(text in "[=+@'\t\r\n\"\u{202e}a-]{0,6}|\\PC{0,12}") {
            let cell = defused(&text);
            prop_assert!(!cell.starts_with(['=', '+', '-', '@', '\t', '\r']));
            prop_assert_eq!(cell.strip_prefix('\'').unwrap_or(&cell), text.as_str());
        }
    }
}
