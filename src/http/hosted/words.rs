//! The texts of the page in each of its languages.

use crate::settings::Language;
use poem::{Request, http::header};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, sync::LazyLock};

/// Texts by name.
pub(super) type Texts = BTreeMap<String, String>;

/// The texts of a language.
#[derive(Debug, Default, Deserialize)]
pub(super) struct PageWords {
    /// Code of the language, for example `de`.
    #[serde(skip)]
    pub(super) code: &'static str,
    /// Name of the language in that language.
    pub(super) name: String,
    /// `ltr` or `rtl`.
    pub(super) direction: String,
    /// Decimal separator.
    decimal: String,
    /// Thousands separator.
    group: String,
    /// Texts used only in documents.
    document: Texts,
    /// Texts that the scripts also use.
    pub(super) page: Texts,
    /// Texts that the scripts use on links on Tron. They replace texts of the same name.
    pub(super) tron: Texts,
}

/// Format of numbers and dates.
#[derive(Debug, Serialize)]
pub(super) struct Locale<'a> {
    code: &'a str,
    decimal: &'a str,
    group: &'a str,
}

static WORDS: LazyLock<Vec<PageWords>> = LazyLock::new(|| Language::ALL.map(read).into());

fn read(language: Language) -> PageWords {
    let text = match language {
        Language::En => include_str!("page/words/en.json"),
        Language::De => include_str!("page/words/de.json"),
        Language::Es => include_str!("page/words/es.json"),
        Language::Fr => include_str!("page/words/fr.json"),
        Language::Ar => include_str!("page/words/ar.json"),
    };
    let words = serde_json::from_str(text).unwrap_or_else(|error| {
        tracing::error!(
            %error, language = language.code(),
            "the texts of a language of the payment page cannot be read"
        );
        PageWords::default()
    });
    PageWords {
        code: language.code(),
        ..words
    }
}

/// All languages, in the order in which the page offers them.
pub(super) fn all() -> &'static [PageWords] {
    &WORDS
}

/// The texts of the language in the `lang` query parameter.
pub(super) fn asked(request: &Request) -> Option<&'static PageWords> {
    let query = request.uri().query().unwrap_or_default();
    let asked = url::form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == "lang");
    asked.and_then(|(_, code)| by_code(&code))
}

fn by_code(code: &str) -> Option<&'static PageWords> {
    WORDS.iter().find(|words| words.code == code)
}

/// The texts for a request: the `lang` parameter first, then the browser's preference, then `usual`.
pub(super) fn chosen(request: &Request, usual: Language) -> &'static PageWords {
    let preferred = || {
        preferences(request.header(header::ACCEPT_LANGUAGE)?)
            .into_iter()
            .find_map(|code| by_code(&code))
    };
    let words = asked(request).or_else(preferred).or_else(|| by_code(usual.code()));
    words.unwrap_or_else(|| &WORDS[0])
}

/// Languages that a browser prefers, without regions, best first.
fn preferences(header: &str) -> Vec<String> {
    let mut preferences: Vec<(u16, String)> = header
        .split(',')
        .filter_map(|entry| {
            let mut parts = entry.split(';').map(str::trim);
            let code = parts.next()?.split('-').next()?.to_ascii_lowercase();
            let weight = parts
                .find_map(|part| part.strip_prefix("q="))
                .map_or(Some(1_000), thousandths)?;
            (weight > 0).then_some((weight, code))
        })
        .collect();
    preferences.sort_by_key(|(weight, _)| std::cmp::Reverse(*weight));
    preferences.into_iter().map(|(_, code)| code).collect()
}

/// Reads a weight such as `0.8` as thousandths.
fn thousandths(weight: &str) -> Option<u16> {
    let (whole, part) = weight.split_once('.').unwrap_or((weight, ""));
    let digits = format!("{part:0<3}");
    let whole: u16 = whole.parse().ok()?;
    Some((whole * 1_000).saturating_add(digits.get(..3)?.parse().ok()?))
}

impl PageWords {
    /// A text by its name.
    pub(super) fn text(&self, name: &str) -> &str {
        let text = self.document.get(name).or_else(|| self.page.get(name));
        text.map_or("", String::as_str)
    }

    /// A text with `values` filled in unescaped; the caller escapes it when writing it into a document.
    pub(super) fn filled(&self, name: &str, values: &[(&str, &str)]) -> String {
        values.iter().fold(self.text(name).to_owned(), |text, (name, value)| {
            text.replace(&format!("{{{name}}}"), value)
        })
    }

    /// A decimal text in the format of this language, with all of its digits.
    pub(super) fn number(&self, text: &str) -> String {
        let (whole, part) = text.split_once('.').unwrap_or((text, ""));
        let mut number = String::new();
        for (index, digit) in whole.chars().enumerate() {
            if index > 0 && (whole.len() - index).is_multiple_of(3) {
                number.push_str(&self.group);
            }
            number.push(digit);
        }
        if !part.is_empty() {
            number.push_str(&self.decimal);
            number.push_str(part);
        }
        number
    }

    /// The format of numbers and dates of this language, for scripts.
    pub(super) fn locale(&self) -> Locale<'_> {
        Locale {
            code: self.code,
            decimal: &self.decimal,
            group: &self.group,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn words(code: &str) -> &'static PageWords {
        all().iter().find(|words| words.code == code).unwrap()
    }

    #[test]
    fn lang_parameter_precedes_accept_language_and_the_default() {
        let chosen = |path: &str, header: &str| {
            let request = Request::builder().uri(path.parse().unwrap());
            let request = request.header(header::ACCEPT_LANGUAGE, header).finish();
            chosen(&request, Language::Fr).code
        };
        assert_eq!(chosen("/pay/x?lang=ar", "de"), "ar");
        assert_eq!(chosen("/pay/x?lang=xx", "de-CH, en;q=0.9"), "de");
        assert_eq!(chosen("/pay/x", "ja, en;q=0.5, es;q=0.8"), "es");
        assert_eq!(chosen("/pay/x", "de;q=0, en-GB;q=0.3"), "en");
        assert_eq!(chosen("/pay/x", "ja"), "fr");
        assert_eq!(chosen("/pay/x", "%;q=x"), "fr");
    }

    #[test]
    fn numbers_keep_all_of_their_digits() {
        assert_eq!(
            words("en").number("1234567.000000000000000001"),
            "1,234,567.000000000000000001"
        );
        assert_eq!(words("de").number("1234.5"), "1.234,5");
        assert_eq!(words("en").number("999"), "999");
        assert_eq!(words("en").number("0.5"), "0.5");
    }

    /// The names of the values that a text contains.
    fn values_of(text: &str) -> BTreeSet<&str> {
        let parts = text.split('{').skip(1);
        parts.filter_map(|part| Some(part.split_once('}')?.0)).collect()
    }

    #[test]
    fn every_language_has_the_texts_and_values_of_english() {
        let english = words("en");
        for other in all() {
            for (own, expected) in [
                (&other.document, &english.document),
                (&other.page, &english.page),
                (&other.tron, &english.tron),
            ] {
                assert!(own.keys().eq(expected.keys()), "{}", other.code);
                for (name, text) in expected {
                    assert_eq!(values_of(&own[name]), values_of(text), "{} {name}", other.code);
                }
            }
        }
    }

    #[test]
    fn every_state_of_an_item_has_a_text() {
        for state in [
            "ready",
            "unpaid",
            "paid",
            "in_progress",
            "expired",
            "withdrawn",
            "unpayable",
        ] {
            assert!(!words("en").text(&format!("state_{state}")).is_empty(), "{state}");
        }
    }

    #[test]
    fn every_language_is_loaded() {
        for words in all() {
            assert!(!words.name.is_empty() && words.page.len() > 50, "{}", words.code);
            assert_eq!(words.text("nothing of this name"), "");
        }
    }
}
