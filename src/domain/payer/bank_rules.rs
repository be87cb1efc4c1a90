//! Required fields of a bank account, by its currency and rails. Source: interface §4.5; rules P.3.4.

use super::Rails::{self, Local, Swift, Wire};
use crate::domain::{country, refusal::FieldError};

/// Message for a bank account that breaks a rule. Source: rules P.3.4.
pub const INVALID: &str = "Invalid bank account details";

/// Fields of a bank account by their API names. A rule needs at least one of them.
type AnyOf = &'static [&'static str];

const ACCOUNT: AnyOf = &["accountNumber"];
const ROUTING: AnyOf = &["routingNumber"];
const BIC: AnyOf = &["swiftBic"];
const IBAN: AnyOf = &["iban"];
const SORT_CODE: AnyOf = &["sortCode"];
const IFSC: AnyOf = &["ifsc"];
const IBAN_OR_ACCOUNT: AnyOf = &["iban", "accountNumber"];

/// Currency, rails, and the fields that such an account needs.
const NEEDS: [(&str, &[Rails], &[AnyOf]); 7] = [
    ("usd", &[Local, Wire], &[ACCOUNT, ROUTING]),
    ("usd", &[Swift], &[BIC, IBAN_OR_ACCOUNT]),
    ("eur", &[Local, Wire], &[IBAN]),
    ("eur", &[Swift], &[IBAN, BIC]),
    ("gbp", &[Local, Wire], &[SORT_CODE, ACCOUNT]),
    ("gbp", &[Swift], &[IBAN, BIC]),
    ("inr", &[Local, Swift, Wire], &[ACCOUNT, BIC, IFSC]),
];

/// Fields that an account in any other currency needs.
const OTHER_NEEDS: &[AnyOf] = &[IBAN_OR_ACCOUNT];

/// A field, its format check, and the message for a wrong value.
type BankFieldRule = (&'static str, fn(&str) -> bool, &'static str);

const FORMS: [BankFieldRule; 4] = [
    (
        "iban",
        is_iban,
        "must be an IBAN with a country code and two check digits",
    ),
    (
        "swiftBic",
        is_bic,
        "must be a BIC of 8 or 11 letters and digits, with a country code in positions 5 and 6",
    ),
    (
        "sortCode",
        is_sort_code,
        "must be a sort code of 6 digits, with or without dashes",
    ),
    (
        "ifsc",
        is_ifsc,
        "must be an IFSC: 4 letters, 0, and 6 letters or digits",
    ),
];

/// Every rule that a bank account breaks. `part` returns the value of a field by its API name.
pub fn broken<'a>(part: impl Fn(&str) -> Option<&'a str>) -> Vec<FieldError> {
    let mut wrong = Vec::new();
    let currency = part("currency").map(str::to_ascii_lowercase);
    let rails = part("rails").map_or(Some(Local), Rails::from_wire);
    if let Some((currency, rails)) = currency.as_deref().zip(rails) {
        let needs = NEEDS
            .iter()
            .find(|(code, ways, _)| *code == currency && ways.contains(&rails))
            .map_or(OTHER_NEEDS, |(_, _, needs)| needs);
        for any_of in needs {
            if !any_of.iter().any(|name| part(name).is_some())
                && let Some(first) = any_of.first()
            {
                let names = any_of.join(" or ");
                let message = format!("{names} is required for {currency} by {}", rails.wire());
                wrong.push(FieldError::new(*first, message));
            }
        }
    }
    let is_dollar = currency.as_deref() == Some("usd");
    if is_dollar && part("routingNumber").is_some_and(|text| !is_routing_number(text)) {
        let message = "must be a routing number of 9 digits, the last of which is its check digit";
        wrong.push(FieldError::new("routingNumber", message));
    }
    for (name, is_right, message) in FORMS {
        if part(name).is_some_and(|text| !is_right(text)) {
            wrong.push(FieldError::new(name, message));
        }
    }
    let is_american = part("country").is_some_and(|country| country.eq_ignore_ascii_case("US"));
    if is_american && part("state").is_none() {
        wrong.push(FieldError::new("state", "is required in the United States"));
    }
    wrong
}

/// A text in upper case, without spaces and dashes.
pub fn ungrouped(text: &str) -> String {
    text.chars()
        .filter(|character| !matches!(character, ' ' | '-'))
        .map(|character| character.to_ascii_uppercase())
        .collect()
}

/// Whether a text is a routing number: nine digits whose sum, weighted with 3, 7 and 1 in turn, is a multiple of 10.
fn is_routing_number(text: &str) -> bool {
    let digits: Option<Vec<u32>> = text.chars().map(|digit| digit.to_digit(10)).collect();
    digits.is_some_and(|digits| {
        let weighted = digits.iter().zip([3, 7, 1].into_iter().cycle());
        let sum: u32 = weighted.map(|(digit, weight)| digit * weight).sum();
        digits.len() == 9 && sum > 0 && sum.is_multiple_of(10)
    })
}

/// Whether a text is an IBAN. With the first four characters moved to the end and letters as 10 to 35, the number is 1
/// modulo 97.
fn is_iban(text: &str) -> bool {
    let text = ungrouped(text);
    let is_written_so = (15..=34).contains(&text.len())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
        && text.bytes().take(2).all(|byte| byte.is_ascii_uppercase())
        && text.bytes().skip(2).take(2).all(|byte| byte.is_ascii_digit());
    let rest = text
        .chars()
        .cycle()
        .skip(4)
        .take(text.len())
        .filter_map(|character| character.to_digit(36))
        .fold(0, |rest, value| (rest * if value < 10 { 10 } else { 100 } + value) % 97);
    is_written_so && rest == 1 && text.get(..2).is_some_and(country::is_assigned)
}

/// Whether a text is a BIC: bank, country, location, and an optional branch.
fn is_bic(text: &str) -> bool {
    let is = |from: usize, until: usize, fits: fn(&u8) -> bool| {
        text.as_bytes()
            .get(from..until)
            .is_some_and(|part| part.iter().all(fits))
    };
    matches!(text.len(), 8 | 11)
        && is(0, 4, u8::is_ascii_alphanumeric)
        && text.get(4..6).is_some_and(country::is_assigned)
        && is(6, text.len(), u8::is_ascii_alphanumeric)
}

fn is_sort_code(text: &str) -> bool {
    let digits = ungrouped(text);
    digits.len() == 6 && digits.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_ifsc(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() == 11
        && bytes.iter().take(4).all(u8::is_ascii_alphabetic)
        && bytes.get(4) == Some(&b'0')
        && bytes.iter().skip(5).all(u8::is_ascii_alphanumeric)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    /// The fields whose rules an account with these values breaks.
    fn fields(parts: &[(&str, &str)]) -> Vec<String> {
        let parts: HashMap<&str, &str> = parts.iter().copied().collect();
        let wrong = broken(|name| parts.get(name).copied());
        wrong.into_iter().map(|error| error.field).collect()
    }

    #[test]
    fn each_currency_and_rail_requires_its_own_fields() {
        for (currency, rails, missing) in [
            ("usd", "local", vec!["accountNumber", "routingNumber"]),
            ("USD", "wire", vec!["accountNumber", "routingNumber"]),
            ("usd", "swift", vec!["swiftBic", "iban"]),
            ("eur", "local", vec!["iban"]),
            ("eur", "wire", vec!["iban"]),
            ("Eur", "swift", vec!["iban", "swiftBic"]),
            ("gbp", "local", vec!["sortCode", "accountNumber"]),
            ("gbp", "swift", vec!["iban", "swiftBic"]),
            ("inr", "local", vec!["accountNumber", "swiftBic", "ifsc"]),
            ("inr", "swift", vec!["accountNumber", "swiftBic", "ifsc"]),
            ("chf", "local", vec!["iban"]),
        ] {
            assert_eq!(
                fields(&[("currency", currency), ("rails", rails)]),
                missing,
                "{currency} {rails}"
            );
        }
        assert_eq!(fields(&[("currency", "eur")]), ["iban"], "local is the default");
        let dollars = [
            ("currency", "usd"),
            ("accountNumber", "1"),
            ("routingNumber", "021000021"),
        ];
        assert!(fields(&dollars).is_empty());
        assert_eq!(fields(&[&dollars[..], &[("country", "US")]].concat()), ["state"]);
        let swift = [("currency", "usd"), ("rails", "swift"), ("swiftBic", "DEUTDEFF")];
        assert!(fields(&[&swift[..], &[("accountNumber", "1")]].concat()).is_empty());
        assert!(fields(&[&swift[..], &[("iban", "DE89370400440532013000")]].concat()).is_empty());
    }

    #[test]
    fn check_digits_are_verified() {
        type Checked = (
            &'static str,
            fn(&str) -> bool,
            &'static [&'static str],
            &'static [&'static str],
        );
        let forms: [Checked; 5] = [
            (
                "routing number",
                is_routing_number,
                &["021000021", "011401533", "091000019"],
                &["021000022", "02100002", "0210000210", "02100002a", "000000000", ""],
            ),
            (
                "iban",
                is_iban,
                &[
                    "DE89370400440532013000",
                    "GB82 WEST 1234 5698 7654 32",
                    "fr1420041010050500013m02606",
                ],
                &[
                    "DE88370400440532013000",
                    "DE8937040044053201300",
                    "8937040044053201300000",
                    // Valid check digits of an unknown country.
                    "ZZ22370400440532013000",
                    "DE89",
                    "ÜÄ89370400440532",
                    "",
                ],
            ),
            (
                "bic",
                is_bic,
                &["DEUTDEFF", "deutdeff500", "NEDSZAJJXXX"],
                &[
                    "DEUTDEF",
                    "DEUT1EFF",
                    "DEUTZZFF",
                    "DEUTUKFF",
                    "DEUTDEFF50",
                    "DEUT-EFF",
                    "",
                ],
            ),
            (
                "sort code",
                is_sort_code,
                &["123456", "12-34-56"],
                &["12345", "1234567", "12345a", ""],
            ),
            (
                "ifsc",
                is_ifsc,
                &["SBIN0005943", "hdfc0000001"],
                &["SBIN1005943", "SBI00005943", "SBIN000594", ""],
            ),
        ];
        for (name, is_right, right, wrong) in forms {
            for text in right {
                assert!(is_right(text), "{name} {text}");
            }
            for text in wrong {
                assert!(!is_right(text), "{name} {text}");
            }
        }
    }
}
