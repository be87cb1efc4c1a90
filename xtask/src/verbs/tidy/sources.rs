//! Checks that every `Source:` in a Rust file names a row, a section or a record of this repository.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Everything that a `Source:` may cite, in a list for each prefix.
pub(super) struct Citable {
    /// `decisions D18`: rows of docs/decisions.md.
    decisions: BTreeSet<String>,
    /// `rules A.4`: rows and headings of docs/rules.md.
    rules: BTreeSet<String>,
    /// `interface §4.3`: rows of docs/interface.md.
    sections: BTreeSet<String>,
    /// `ADR-0007`: files in docs/adr.
    records: BTreeSet<String>,
}

impl Citable {
    /// Reads from the repository what may be cited. A missing file counts as empty.
    pub(super) fn of_repository(root: &Path) -> Self {
        let numbers = |path: &str| numbers(&fs::read_to_string(root.join(path)).unwrap_or_default());
        let records = fs::read_dir(root.join("docs/adr")).into_iter().flatten().flatten();
        let number = |name: &str| Some(name.split_once('-')?.0.to_owned());
        Self {
            decisions: numbers("docs/decisions.md"),
            rules: numbers("docs/rules.md"),
            sections: numbers("docs/interface.md"),
            records: records
                .filter_map(|record| number(record.file_name().to_str()?))
                .collect(),
        }
    }

    /// Citations in a Rust file that cannot be resolved, as `line: what is wrong`.
    pub(super) fn unresolved(&self, text: &str) -> Vec<String> {
        let mut found = Vec::new();
        for (line, cited) in citations(text) {
            for source in cited.split([';', ',']).map(str::trim) {
                if !self.holds(source) {
                    found.push(format!("{line}: `Source: {source}` does not exist"));
                }
            }
        }
        found
    }

    fn holds(&self, source: &str) -> bool {
        if let Some((list, number)) = source.split_once(' ') {
            let list = match list {
                "decisions" => &self.decisions,
                "rules" => &self.rules,
                "interface" => &self.sections,
                _ => return false,
            };
            return list.contains(number);
        }
        match source.split_once('-') {
            Some(("ADR", number)) => self.records.contains(number),
            Some(("EIP" | "ERC", number)) => !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit()),
            _ => false,
        }
    }
}

/// The first cell of each table row in a document, and the headings of the document.
fn numbers(text: &str) -> BTreeSet<String> {
    let number = |line: &str| match line.strip_prefix("| ") {
        Some(row) => Some(row.split_once(" |")?.0.to_owned()),
        None => Some(
            line.strip_prefix('#')?
                .trim_start_matches('#')
                .split_whitespace()
                .next()?
                .to_owned(),
        ),
    };
    text.lines().filter_map(number).collect()
}

/// The citations of a comment. A citation is the text after `Source:` up to the end of the sentence; explanations in
/// parentheses are left out. Each has the line in which it begins.
fn citations(text: &str) -> Vec<(usize, String)> {
    let comments: Vec<Option<&str>> = text
        .lines()
        .map(|line| {
            line.trim_start()
                .strip_prefix("//")
                .map(|rest| rest.trim_start_matches(['/', '!']))
        })
        .collect();
    let mut found = Vec::new();
    for (at, comment) in comments.iter().enumerate() {
        let Some(comment) = comment else { continue };
        for (start, mark) in comment.match_indices("Source:") {
            // A `Source:` in backquotes is a mention of the word and no citation.
            if !comment[..start].ends_with('`') {
                let rest = comments[at + 1..].iter().map_while(|line| *line);
                let lines = [&comment[start + mark.len()..]].into_iter().chain(rest);
                let text: Vec<&str> = lines.map(str::trim).collect();
                found.push((at + 1, one_sentence(&text.join(" "))));
            }
        }
    }
    found
}

fn one_sentence(text: &str) -> String {
    let mut sentence = String::new();
    let mut depth = 0_usize;
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ if depth > 0 => {}
            '.' if characters.peek().is_none_or(|next| next.is_whitespace()) => break,
            other => sentence.push(other),
        }
    }
    sentence
}

#[cfg(test)]
mod tests {
    use super::*;

    fn citable() -> Citable {
        let of = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Citable {
            decisions: numbers("# Decisions\n\n| # | decision |\n|---|---|\n| D6 | Off |\n| D18 | Keys |\n"),
            rules: numbers("## A. Delivery\n\n### A.4 Where a webhook may go\n\n| D.10 | hangs |\n"),
            sections: numbers("| §4.3 | Calldata |"),
            records: of(&["0007"]),
        }
    }

    #[test]
    fn existing_sources_can_be_cited() {
        for source in [
            "decisions D18.",
            "decisions D6; rules A.4, rules D.10.",
            "interface §4.3 (the cap; in USD. Rounded). Example: 1.5",
            "ADR-0007; EIP-712; ERC-1271.",
            "rules A.4;\n    /// decisions D18",
        ] {
            let text = format!("    /// Size, in bytes. Source: {source}\nfn f() {{}}");
            assert_eq!(citable().unresolved(&text), Vec::<String>::new(), "{source}");
        }
    }

    #[test]
    fn unknown_sources_are_refused() {
        for source in [
            "decisions D1",
            "rules A.5",
            "interface 4.3",
            "interface §4",
            "ADR-0001",
            "EIP-x",
            "seed §4.3",
            "Decisions D18",
            "decisions D18 and D6",
            "",
        ] {
            let text = format!("//! Doc.\n\n//! Source: {source}.\n");
            assert_eq!(
                citable().unresolved(&text),
                [format!("3: `Source: {source}` does not exist")]
            );
        }
        assert_eq!(citable().unresolved("/// Source: decisions D6; decisions D7.").len(), 1);
    }

    #[test]
    fn only_comments_cite() {
        assert!(
            citable()
                .unresolved("let x = \"Source: nothing\"; Source::Chainlink")
                .is_empty()
        );
    }
}
