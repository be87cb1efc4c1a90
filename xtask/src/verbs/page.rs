//! The files of the payment page: small enough, complete in every language, and drawn without markup out of texts.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use brotli::enc::BrotliEncoderParams;
use serde_json::Value;

use xtask::machine::failure::Outcome;
use xtask::machine::workspace;

/// Where the page is made.
const ROOM: &str = "src/http/hosted";

/// Endings of files, and the most bytes that all of them may have together, compressed with Brotli.
const BUDGETS: [(&str, usize); 2] = [("js", 30 * 1024), ("css", 6 * 1024)];

/// The language that the others are compared with.
const FIRST: &str = "en";

/// Fewest languages.
const LANGUAGES_MIN: usize = 5;

/// What writes markup out of texts, or runs texts.
const REFUSED: [&str; 6] = [
    "innerHTML",
    "outerHTML",
    "insertAdjacentHTML",
    "document.write",
    "eval(",
    "new Function",
];

/// Beginnings of names that a word of the code completes, and the end of the longer one of two texts.
const PREFIXES: [&str; 2] = ["e_", "why_"];
const LONGER: &str = "More";

/// States that the service has names for, under which pages say that a link is over.
const STATES: [&str; 3] = ["expired", "invalidated", "compliance_failed"];

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
            wrong.push(format!("{bytes} bytes of {ending}, compressed; at most {budget} fit"));
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
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(anyhow!("the payment page:\n{}", wrong.join("\n")).into()),
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

/// Texts by their names, those of all parts, by language.
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

/// What is missing in a language, left over, or says something else about other values; and names that nothing uses.
fn words(languages: &Languages, sources: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let Some(first) = languages.get(FIRST) else {
        return vec![format!("there are no words of {FIRST}")];
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
                    wrong.push(format!("{language}: {name} is about other values than in {FIRST}"));
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
    wrong.extend(unused.map(|name| format!("{name} is used nowhere")));
    let asked = asked(sources).filter(|name| !names.contains(name));
    wrong.extend(asked.map(|name| format!("{name} is in no language")));
    wrong
}

/// The names in calls of `t`, which reads the words.
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

/// Whether the code names a text, whole or as the word that completes it.
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
    fn languages_say_the_same_about_the_same_values() {
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
            "de: page.pay is about other values than in en"
        );
        let further = [("page.pay", "{amount}"), ("page.x", "x")];
        assert_eq!(found(&further), "de: page.x is not in en");
    }

    #[test]
    fn texts_are_used_and_the_used_ones_are_there() {
        let languages = Languages::from([("en".to_owned(), texts(&[("page.e_busyMore", "x"), ("page.old", "x")]))]);
        let found = words(&languages, "new Trouble('busy'); t('lost', {}); text.split('.')")[1..].join("; ");
        assert_eq!(found, "old is used nowhere; lost is in no language");
    }
}
