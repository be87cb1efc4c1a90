//! Exports: rows for programs and for spreadsheets.

use super::wire_text::wire_text;

wire_text! {
    /// Format of an export.
    pub enum ExportFormat {
        /// A header and a line of cells for each row.
        Csv = "csv",
        /// A line of JSON for each row.
        Jsonl = "jsonl",
    }
}

/// Characters that start a formula in spreadsheets, or that hide such a character. East Asian versions also accept the
/// full-width forms.
const SIGNS: [char; 11] = ['=', '+', '-', '@', '\t', '\r', '\'', '＝', '＋', '－', '＠'];

/// Characters after which a spreadsheet may start a new cell, even inside quotes. Many spreadsheets use `;` as the
/// separator and treat quotes in the middle of a cell as text.
const BREAKS: [char; 4] = [';', '\t', '\r', '\n'];

/// Returns a text in which no spreadsheet finds a formula, with any separator.
///
/// The function adds one `'` before a formula character, and before `'` itself. It looks at the start of the text,
/// after `;` and a tab, and at the start of each line. Except at the start of the text, `"` counts as a formula
/// character, because it could hide one. A reader that removes one `'` at these positions gets the original text.
#[must_use]
pub fn defused(text: &str) -> String {
    let mut cell = String::with_capacity(text.len());
    let mut before = None;
    for sign in text.chars() {
        let begins = before.is_none_or(|before| BREAKS.contains(&before));
        if begins && (SIGNS.contains(&sign) || (sign == '"' && before.is_some())) {
            cell.push('\'');
        }
        cell.push(sign);
        before = Some(sign);
    }
    cell
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The rule for readers, as the API documents state it.
    fn read_back(cell: &str) -> String {
        let rule = regex::Regex::new("(^|[;\t\r\n])'").unwrap();
        rule.replace_all(cell, "$1").into_owned()
    }

    #[test]
    fn only_cells_that_start_with_a_formula_sign_are_changed() {
        for (text, cell) in [
            ("=1+1", "'=1+1"),
            ("'quoted'", "''quoted'"),
            ("\t=1", "'\t'=1"),
            ("-5", "'-5"),
            ("a=1", "a=1"),
            ("", ""),
            ("x;=1+1;y", "x;'=1+1;y"),
            ("x;'=1", "x;''=1"),
            ("x;\"=1\"", "x;'\"=1\""),
            ("\"=1\"", "\"=1\""),
            ("x\t@a", "x\t'@a"),
            ("one\r\n=1", "one\r\n'=1"),
            ("＝1＋1", "'＝1＋1"),
            ("a; b", "a; b"),
        ] {
            assert_eq!(defused(text), cell);
            assert_eq!(read_back(cell), text);
        }
    }

    proptest! {
        #[test]
        fn no_part_of_a_cell_is_a_formula_and_texts_round_trip(
            text in "[=+@'\t\r\n\";,＝＋－＠\u{202e}a-]{0,10}|\\PC{0,12}",
        ) {
            let cell = defused(&text);
            let signs = ['=', '+', '-', '@', '＝', '＋', '－', '＠'];
            let mut pieces = cell.split([';', '\t', '\r', '\n']);
            prop_assert!(!pieces.any(|piece| piece.starts_with(signs)), "{cell:?}");
            prop_assert!(!cell.starts_with(['\t', '\r']));
            prop_assert_eq!(read_back(&cell), text);
        }
    }
}
