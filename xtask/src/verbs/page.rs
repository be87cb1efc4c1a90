//! Checks the source files of the payment page: their sizes are limited, all translations are complete, and no code
//! builds markup from texts.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use brotli::enc::BrotliEncoderParams;
use serde_json::Value;

use xtask::machine::failure::Outcome;
use xtask::machine::workspace;

/// Folder of the page.
const ROOM: &str = "src/http/hosted";

/// File extensions. Each has the maximum size in bytes of all its files together, after compression with Brotli.
const BUDGETS: [(&str, usize); 2] = [("js", 30 * 1024), ("css", 6 * 1024)];

/// The language with which all other languages are compared.
const FIRST: &str = "en";

/// Minimum number of languages.
const LANGUAGES_MIN: usize = 5;

/// Pieces of code that build markup from texts or execute texts. The page must not contain them.
const REFUSED: [&str; 6] = [
    "innerHTML",
    "outerHTML",
    "insertAdjacentHTML",
    "document.write",
    "eval(",
    "new Function",
];

/// Prefixes of text names that the code completes with a word. The next constant is the suffix in the name of the
/// longer of two texts.
const PREFIXES: [&str; 3] = ["e_", "state_", "why_"];
const LONGER: &str = "More";

/// States in which the service reports a closed link, or a link that a multicall cannot pay. For each state, the page
/// has a text of the same name.
const STATES: [&str; 6] = [
    "expired",
    "invalidated",
    "compliance_failed",
    "unpaid",
    "withdrawn",
    "unpayable",
];

/// Checks the files; prints their sizes.
pub(crate) fn check() -> Outcome {
    let page = workspace::root().join(ROOM).join("page");
    let files = files_of(&page)?;
    let mut wrong = Vec::new();
    for (ending, budget) in BUDGETS {
        let texts = files.iter().filter(|(path, _)| has_ending(path, ending));
        let bytes: usize = texts
            .map(|(_, text)| compressed(text.as_bytes()))
            .sum::<Result<usize>>()?;
        println!("payment page: {bytes} of {budget} bytes of {ending}, compressed");
        if bytes > budget {
            wrong.push(format!("{bytes} bytes of {ending}, compressed; the limit is {budget}"));
        }
    }
    for (path, text) in &files {
        let found = REFUSED.iter().filter(|refused| text.contains(**refused));
        wrong.extend(found.map(|found| format!("{}: {found}", path.display())));
    }
    let sources: String = files_of(&workspace::root().join(ROOM))?
        .into_iter()
        .chain(files)
        .filter(|(path, _)| has_ending(path, "rs") || has_ending(path, "js"))
        .map(|(_, text)| text)
        .collect();
    wrong.extend(words(&languages(&page.join("words"))?, &sources));
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(anyhow!("the payment page:\n{}", wrong.join("\n")).into())
    }
}

fn has_ending(path: &Path, ending: &str) -> bool {
    path.extension().is_some_and(|own| own == ending)
}

fn files_of(folder: &Path) -> Result<Vec<(PathBuf, String)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.is_file() {
            let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            files.push((path, text));
        }
    }
    Ok(files)
}

fn compressed(mut text: &[u8]) -> Result<usize> {
    let mut out = Vec::new();
    brotli::BrotliCompress(&mut text, &mut out, &BrotliEncoderParams::default())?;
    Ok(out.len())
}

/// For each language, the texts of all parts of the page by name.
type Languages = BTreeMap<String, BTreeMap<String, String>>;

fn languages(folder: &Path) -> Result<Languages> {
    let mut languages = Languages::new();
    for (path, text) in files_of(folder)? {
        let words: Value = serde_json::from_str(&text).with_context(|| path.display().to_string())?;
        let mut texts = BTreeMap::new();
        for (part, value) in words.as_object().into_iter().flatten() {
            match value {
                Value::Object(named) => texts.extend(
                    named
                        .iter()
                        .map(|(name, text)| (format!("{part}.{name}"), text.as_str().unwrap_or_default().to_owned())),
                ),
                value => {
                    texts.insert(part.clone(), value.as_str().unwrap_or_default().to_owned());
                }
            }
        }
        let name = path.file_stem().map(|name| name.to_string_lossy().into_owned());
        languages.insert(name.unwrap_or_default(), texts);
    }
    Ok(languages)
}

/// Lists the errors in the texts: missing and extra texts of a language, texts whose placeholders differ, and names
/// that the code does not use.
fn words(languages: &Languages, sources: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let Some(first) = languages.get(FIRST) else {
        return vec![format!("there are no texts for {FIRST}")];
    };
    if languages.len() < LANGUAGES_MIN {
        wrong.push(format!("{} languages; at least {LANGUAGES_MIN}", languages.len()));
    }
    for (language, texts) in languages {
        for (name, text) in first {
            match texts.get(name) {
                None => wrong.push(format!("{language}: {name} is missing")),
                Some(own) if own.is_empty() => wrong.push(format!("{language}: {name} is empty")),
                Some(own) if placeholders(own) != placeholders(text) => {
                    wrong.push(format!("{language}: {name} has other placeholders than in {FIRST}"));
                }
                Some(_) => {}
            }
        }
        let further = texts.keys().filter(|name| !first.contains_key(*name));
        wrong.extend(further.map(|name| format!("{language}: {name} is not in {FIRST}")));
    }
    let names: BTreeSet<&str> = first
        .keys()
        .filter_map(|name| name.split_once('.'))
        .map(|(_, name)| name)
        .collect();
    let unused = names.iter().filter(|name| !is_used(name, sources));
    wrong.extend(unused.map(|name| format!("{name} is not used")));
    let asked = asked(sources).filter(|name| !names.contains(name));
    wrong.extend(asked.map(|name| format!("{name} is in no language")));
    wrong
}

/// The names in calls of `t`, which looks up a text.
fn asked(sources: &str) -> impl Iterator<Item = &str> {
    const CALL: &str = "t('";
    sources.match_indices(CALL).filter_map(|(at, _)| {
        let before = sources[..at].chars().next_back();
        let (name, _) = sources[at + CALL.len()..].split_once('\'')?;
        let is_call = before.is_none_or(|letter| !letter.is_alphanumeric());
        is_call.then_some(name)
    })
}

fn placeholders(text: &str) -> BTreeSet<&str> {
    let parts = text.split('{').skip(1);
    parts
        .filter_map(|part| part.split_once('}'))
        .map(|(name, _)| name)
        .collect()
}

/// Whether the code uses a text: it contains the whole name, or a word that completes the name.
fn is_used(name: &str, sources: &str) -> bool {
    let is_quoted = |word: &str| sources.contains(&format!("'{word}'")) || sources.contains(&format!("\"{word}\""));
    let bare = PREFIXES
        .iter()
        .find_map(|prefix| name.strip_prefix(prefix))
        .unwrap_or(name);
    let short = bare.strip_suffix(LONGER).unwrap_or(bare);
    [name, bare, short]
        .iter()
        .any(|word| is_quoted(word) || STATES.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(texts: &[(&str, &str)]) -> BTreeMap<String, String> {
        let texts = texts
            .iter()
            .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
        texts.collect()
    }

    #[test]
    fn languages_have_the_same_texts_and_placeholders() {
        let languages = |other: &[(&str, &str)]| {
            let first = texts(&[("page.pay", "Pay {amount}")]);
            Languages::from([("en".to_owned(), first), ("de".to_owned(), texts(other))])
        };
        let found = |other: &[(&str, &str)]| words(&languages(other), "t('pay')")[1..].join("; ");
        assert_eq!(found(&[("page.pay", "{amount} zahlen")]), "");
        assert_eq!(found(&[]), "de: page.pay is missing");
        assert_eq!(found(&[("page.pay", "")]), "de: page.pay is empty");
        assert_eq!(
            found(&[("page.pay", "Zahlen")]),
            "de: page.pay has other placeholders than in en"
        );
        let further = [("page.pay", "{amount}"), ("page.x", "x")];
        assert_eq!(found(&further), "de: page.x is not in en");
    }

    #[test]
    fn texts_are_used_and_the_used_ones_are_there() {
        let languages = Languages::from([("en".to_owned(), texts(&[("page.e_busyMore", "x"), ("page.old", "x")]))]);
        let found = words(&languages, "new Trouble('busy'); t('lost', {}); text.split('.')")[1..].join("; ");
        assert_eq!(found, "old is not used; lost is in no language");
    }
}
