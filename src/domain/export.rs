//! Exports: rows for programs and for spreadsheets.

use super::wire_text::wire_text;

wire_text! {
    /// What an export is written as.
    pub enum ExportFormat {
        /// A header and a line of cells for each row.
        Csv = "csv",
        /// A line of JSON for each row.
        Jsonl = "jsonl",
    }
}

/// With these a spreadsheet begins a formula, or hides that it does; in East Asia also with the wide ones.
const SIGNS: [char; 11] = ['=', '+', '-', '@', '\t', '\r', '\'', '＝', '＋', '－', '＠'];

/// Behind these a spreadsheet may begin a cell, whatever stands around the text: many separate by `;`, and quotes in the
/// middle of a cell are text for them.
const BREAKS: [char; 4] = [';', '\t', '\r', '\n'];

/// A text in which no spreadsheet finds a formula, also when it separates cells in another way: a sign of formulas, or `'`
/// itself, has one `'` before it at the beginning, behind `;` and a tab, and at the beginning of a line. Behind the beginning
/// `"` counts as a sign, since it would hide one. Whoever takes one `'` away at these places has the text again.
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

    /// The rule for readers, as the document says it.
    fn read_back(cell: &str) -> String {
        let rule = regex::Regex::new("(^|[;\t\r\n])'").unwrap();
        rule.replace_all(cell, "$1").into_owned()
    }

    #[test]
    fn only_what_begins_with_a_sign_changes() {
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
        fn no_piece_of_a_cell_is_a_formula_and_the_text_comes_back(
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
