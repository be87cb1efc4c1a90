//! Counts words that make a sentence hard to read, and names that several types share. A count must not rise.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// The counts of the committed repository, each as `kind: count`.
const COUNTS: &str = "xtask/language.counts";

/// Names that several types have on purpose, each as `Name: reason`.
const SHARED_NAMES: &str = "xtask/language.shared";

/// Maximum number of names that several types may have on purpose.
const SHARED_MAX: usize = 20;

/// Words without a noun, and idioms for which there is a plain word. STYLE.md has the rule.
const HABITS: [&[&str]; 14] = [
    &["whoever"],
    &["nobody"],
    &["somebody"],
    &["anybody"],
    &["of", "before"],
    &["so", "many"],
    &["all", "the", "same"],
    &["at", "this", "moment"],
    &["any", "more"],
    &["stands", "for"],
    &["is", "told"],
    &["are", "told"],
    &["is", "asked"],
    &["are", "asked"],
];

/// Files that are not counted, because they define or quote these words.
const EXEMPT: [&str; 2] = ["xtask/src/verbs/tidy/language.rs", "STYLE.md"];

/// Documents for clients, which are generated from the code and from texts of the contract.
const API_DOCUMENTS: [&str; 3] = ["openapi/auth.json", "openapi/v2.json", "openapi/webhooks.json"];

/// The kind of text in which a word was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Documents,
    ClientText,
    OtherText,
    Comments,
    SharedNames,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Documents => "documents",
            Self::ClientText => "strings of the service",
            Self::OtherText => "strings of tests and tools",
            Self::Comments => "comments",
            Self::SharedNames => "type names defined more than once",
        }
    }

    const ALL: [Self; 5] = [
        Self::Documents,
        Self::ClientText,
        Self::OtherText,
        Self::Comments,
        Self::SharedNames,
    ];
}

/// The places that were found, each as `path:line: what`, by kind of text.
#[derive(Debug, Default)]
pub(super) struct Language {
    found: BTreeMap<Kind, Vec<String>>,
    types: BTreeMap<String, Vec<String>>,
}

impl Language {
    /// Adds a file of the repository.
    pub(super) fn add(&mut self, path: &Path, text: &str) -> Result<()> {
        if EXEMPT.iter().any(|exempt| path == Path::new(exempt)) {
            return Ok(());
        }
        let extension = path.extension().and_then(|extension| extension.to_str());
        let in_service = path.starts_with("src") || path.starts_with("devnet/src");
        let is_document = API_DOCUMENTS.iter().any(|document| path == Path::new(document));
        match extension {
            Some("md") => self.add_lines(path, text, |_| Some(Kind::Documents)),
            Some("json") if is_document => self.add_lines(path, text, |_| Some(Kind::Documents)),
            Some("js" | "json" | "html") if in_service => self.add_lines(path, text, |_| Some(Kind::ClientText)),
            Some("rs") => {
                self.add_lines(path, text, |line| {
                    line.trim_start().starts_with("//").then_some(Kind::Comments)
                });
                let tokens: TokenStream = text.parse().map_err(|error| anyhow::anyhow!("{error}"))?;
                let kind = if in_service { Kind::ClientText } else { Kind::OtherText };
                self.add_strings(path, kind, tokens.clone());
                if path.starts_with("src") {
                    self.add_types(path, tokens);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn add_lines(&mut self, path: &Path, text: &str, kind: impl Fn(&str) -> Option<Kind>) {
        for (number, line) in (1..).zip(text.lines()) {
            if let Some(kind) = kind(line) {
                self.add_text(path, number, kind, line);
            }
        }
    }

    fn add_text(&mut self, path: &Path, line: usize, kind: Kind, text: &str) {
        let place = |habit: &str| format!("{}:{line}: `{habit}`", path.display());
        let found = habits(text).into_iter().map(|habit| place(&habit));
        self.found.entry(kind).or_default().extend(found);
    }

    /// Adds the string literals of a file, without its doc comments.
    fn add_strings(&mut self, path: &Path, kind: Kind, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        for (at, token) in tokens.iter().enumerate() {
            match token {
                TokenTree::Group(group) => self.add_strings(path, kind, group.stream()),
                TokenTree::Literal(literal) if !is_doc(&tokens[..at]) => {
                    let text = literal.to_string();
                    if text.contains('"') {
                        self.add_text(path, literal.span().start().line, kind, &text);
                    }
                }
                _ => {}
            }
        }
    }

    /// Adds the names of the types that a module defines. Definitions inside macro calls are included.
    fn add_types(&mut self, path: &Path, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let ident = |at: Option<usize>| match at.and_then(|at| tokens.get(at)) {
            Some(TokenTree::Ident(ident)) => ident.to_string(),
            _ => String::new(),
        };
        let mark = |at: Option<usize>, wanted: char| matches!(at.and_then(|at| tokens.get(at)), Some(TokenTree::Punct(punct)) if punct.as_char() == wanted);
        for (at, token) in tokens.iter().enumerate() {
            match token {
                TokenTree::Ident(word) if ["struct", "enum", "trait", "type"].iter().any(|known| word == known) => {
                    let name = ident(Some(at + 1));
                    if name.starts_with(char::is_uppercase) {
                        let place = format!("{}:{}", path.display(), word.span().start().line);
                        self.types.entry(name).or_default().push(place);
                    }
                }
                TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
                    let in_module = ident(at.checked_sub(2)) == "mod";
                    let in_macro = mark(at.checked_sub(1), '!') || mark(at.checked_sub(2), '!');
                    if in_module || in_macro {
                        self.add_types(path, group.stream());
                    }
                }
                _ => {}
            }
        }
    }

    /// Lists the counts that rose, and the counts that fell without being committed. Each entry says what is counted.
    pub(super) fn violations(mut self, root: &Path) -> Result<Vec<String>> {
        let read = |path: &str| fs::read_to_string(root.join(path)).with_context(|| format!("{path} cannot be read"));
        let shared: BTreeSet<String> = listed(&read(SHARED_NAMES)?).map(|(name, _)| name.to_owned()).collect();
        let repeated = self.types.iter().filter(|(_, places)| places.len() > 1);
        let (known, repeated): (Vec<_>, Vec<_>) = repeated.partition(|(name, _)| shared.contains(*name));
        let described = |(name, places): &(&String, &Vec<String>)| format!("`{name}`: {}", places.join(", "));
        let names: Vec<String> = repeated.iter().map(described).collect();
        let mut violations = Vec::new();
        if shared.len() > SHARED_MAX {
            violations.push(format!("{SHARED_NAMES}: lists more than {SHARED_MAX} names"));
        }
        let known: BTreeSet<&String> = known.into_iter().map(|(name, _)| name).collect();
        let unused = shared.iter().filter(|name| !known.contains(name));
        violations.extend(unused.map(|name| format!("{SHARED_NAMES}: only one type is named `{name}`; remove it")));
        self.found.insert(Kind::SharedNames, names);
        let counts: BTreeMap<String, usize> = listed(&read(COUNTS)?)
            .filter_map(|(kind, count)| Some((kind.to_owned(), count.parse().ok()?)))
            .collect();
        for kind in Kind::ALL {
            let found = self.found.remove(&kind).unwrap_or_default();
            let committed = counts.get(kind.name()).copied();
            violations.extend(compared(kind, &found, committed));
        }
        Ok(violations)
    }
}

/// The problem of a count; `None` if it is as committed. For a count that rose, the problem lists the places. A count
/// that fell has to be committed.
fn compared(kind: Kind, found: &[String], committed: Option<usize>) -> Vec<String> {
    let (name, count) = (kind.name(), found.len());
    match committed {
        Some(committed) if committed == count => Vec::new(),
        Some(committed) if committed > count => {
            vec![format!(
                "{COUNTS}: `{name}: {committed}` fell to {count}; commit the new count"
            )]
        }
        _ => {
            let rise = format!("{COUNTS}: `{name}` rose to {count}; STYLE.md says what to write instead");
            found.iter().cloned().chain([rise]).collect()
        }
    }
}

/// The lines of a list, each split at its first colon.
fn listed(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.lines().filter_map(|line| line.split_once(": "))
}

/// Whether a literal is the text of a doc comment, because `doc` and an equals sign precede it.
fn is_doc(before: &[TokenTree]) -> bool {
    matches!(
        before,
        [.., TokenTree::Ident(name), TokenTree::Punct(equals)] if name == "doc" && equals.as_char() == '='
    )
}

/// The words of [`HABITS`] that a line contains, in order of appearance.
fn habits(line: &str) -> Vec<String> {
    let line = line.to_lowercase();
    let words = line.split(|character: char| !character.is_alphanumeric() && character != '\'');
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let starting = (0..words.len()).filter_map(|at| HABITS.iter().find(|habit| words[at..].starts_with(habit)));
    starting.map(|habit| habit.join(" ")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn language(files: &[(&str, &str)]) -> Language {
        let mut language = Language::default();
        for (path, text) in files {
            language.add(Path::new(path), text).unwrap();
        }
        language
    }

    fn found(language: &Language, kind: Kind) -> usize {
        language.found.get(&kind).map_or(0, Vec::len)
    }

    #[test]
    fn habits_are_whole_words_in_any_case() {
        assert_eq!(
            habits("Whoever asks, and nobody else: so many."),
            ["whoever", "nobody", "so many"]
        );
        assert!(habits("a list of beforehand agreed items; also many").is_empty());
    }

    #[test]
    fn each_text_is_counted_by_its_kind() {
        let rust = "//! Nobody.\n/// Nobody.\nfn f() { // x\n    g(\"nobody\");\n}\n";
        let language = language(&[
            ("src/domain/amount.rs", rust),
            ("tests/it/main.rs", rust),
            ("README.md", "Nobody."),
            ("STYLE.md", "Nobody."),
            ("src/http/hosted/page/words/en.json", "{\"a\": \"nobody\"}"),
            ("tests/vectors/a.json", "{\"a\": \"nobody\"}"),
        ]);
        assert_eq!(found(&language, Kind::Comments), 4);
        assert_eq!(found(&language, Kind::ClientText), 2);
        assert_eq!(found(&language, Kind::OtherText), 1);
        assert_eq!(found(&language, Kind::Documents), 1);
    }

    #[test]
    fn types_of_modules_and_macros_are_seen_and_associated_types_are_not() {
        let first = "struct Part;\nimpl Trait for Part { type Error = (); }\nmod inner { enum Answer {} }";
        let second = "wire_enum! { pub enum Part {} }\nimpl Trait for X { type Error = (); }";
        let language = language(&[("src/a.rs", first), ("src/b.rs", second)]);
        assert_eq!(language.types["Part"], ["src/a.rs:1", "src/b.rs:1"]);
        assert_eq!(language.types["Answer"].len(), 1);
        assert!(!language.types.contains_key("Error"));
    }

    #[test]
    fn a_count_that_rises_is_refused_and_one_that_falls_is_committed() {
        let found = ["a.md:1: `nobody`".to_owned()];
        assert!(compared(Kind::Documents, &found, Some(1)).is_empty());
        assert_eq!(compared(Kind::Documents, &found, Some(0)).len(), 2);
        assert_eq!(compared(Kind::Documents, &found, None).len(), 2);
        assert_eq!(compared(Kind::Documents, &found, Some(2)).len(), 1);
    }
}
