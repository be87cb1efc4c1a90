//! Writes a body in the form that JavaScript produces: a receiver that parses and serialises it again gets the same
//! bytes.
//!
//! Receivers verify signatures over re-serialised JSON, so compact output is not enough. Numbers that JavaScript would
//! print differently become strings. JavaScript moves member names that look like array indexes to the front of an
//! object, so these names get an underscore. Source: decisions D21; rules H.13.

use serde::Serialize;
use serde_json::{Map, Value};

/// Largest integer that JavaScript represents exactly.
const SAFE_INTEGER_MAX: u64 = (1 << 53) - 1;

/// The bytes of a body.
pub(super) fn render<T: Serialize>(body: &T) -> String {
    #[expect(
        clippy::expect_used,
        reason = "the maps in payload types have text keys, and none of their serialisers fails"
    )]
    let value = serde_json::to_value(body).expect("a payload is JSON");
    normalise(value).to_string()
}

/// Rewrites JSON of a merchant or partner, so that JavaScript preserves it byte for byte.
pub(super) fn normalise(value: Value) -> Value {
    match value {
        Value::Number(number) => {
            let is_safe = number.as_u64().is_some_and(|number| number <= SAFE_INTEGER_MAX)
                || number
                    .as_i64()
                    .is_some_and(|number| number.unsigned_abs() <= SAFE_INTEGER_MAX);
            if is_safe {
                Value::Number(number)
            } else {
                Value::String(number.to_string())
            }
        }
        Value::Array(items) => items.into_iter().map(normalise).collect(),
        Value::Object(members) => {
            let mut kept = Map::new();
            let taken: Vec<String> = members.keys().cloned().collect();
            for (name, value) in members {
                kept.insert(safe_name(name, &taken), normalise(value));
            }
            Value::Object(kept)
        }
        other => other,
    }
}

/// Adds underscores to a name that looks like an index, until it equals no other member.
fn safe_name(name: String, taken: &[String]) -> String {
    let is_index = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit());
    if !is_index {
        return name;
    }
    let mut safe = format!("_{name}");
    while taken.contains(&safe) {
        safe.insert(0, '_');
    }
    safe
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    /// What `JSON.stringify` writes for a string, from the language specification (QuoteJSONString).
    fn quoted_by_javascript(text: &str) -> String {
        let mut out = String::from("\"");
        for unit in text.chars() {
            match unit {
                '\u{8}' => out.push_str("\\b"),
                '\t' => out.push_str("\\t"),
                '\n' => out.push_str("\\n"),
                '\u{c}' => out.push_str("\\f"),
                '\r' => out.push_str("\\r"),
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                control if control < ' ' => out.push_str(&format!("\\u{:04x}", u32::from(control))),
                plain => out.push(plain),
            }
        }
        out.push('"');
        out
    }

    fn written_by_javascript(value: &Value) -> String {
        match value {
            Value::String(text) => quoted_by_javascript(text),
            Value::Array(items) => {
                let items: Vec<String> = items.iter().map(written_by_javascript).collect();
                format!("[{}]", items.join(","))
            }
            Value::Object(members) => {
                let is_index = |name: &str| name.parse::<u32>().is_ok_and(|index| index.to_string() == name);
                let mut indices: Vec<_> = members.iter().filter(|(name, _)| is_index(name)).collect();
                indices.sort_by_key(|(name, _)| name.parse::<u32>().unwrap());
                let names = members.iter().filter(|(name, _)| !is_index(name));
                let members: Vec<String> = indices
                    .into_iter()
                    .chain(names)
                    .map(|(name, value)| format!("{}:{}", quoted_by_javascript(name), written_by_javascript(value)))
                    .collect();
                format!("{{{}}}", members.join(","))
            }
            other => other.to_string(),
        }
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let text = prop_oneof![
            "[0-9]{1,3}",
            "_[0-9]",
            ".{0,8}",
            "[\\x00-\\x1f\\x7f\"\\\\/\u{2028}\u{2029}\u{feff}]{1,4}"
        ];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            text.clone().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 48, 6, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::vec((text.clone(), inner), 0..6)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn javascript_preserves_bodies_byte_for_byte(value in any_json()) {
            let body = render(&value);
            let parsed: Value = serde_json::from_str(&body).unwrap();
            prop_assert_eq!(written_by_javascript(&parsed), body);
        }

        #[test]
        fn rendering_twice_changes_nothing(value in any_json()) {
            let body = render(&value);
            let parsed: Value = serde_json::from_str(&body).unwrap();
            prop_assert_eq!(render(&parsed), body);
        }

        #[test]
        fn no_member_is_lost(value in any_json()) {
            fn members(value: &Value) -> usize {
                match value {
                    Value::Array(items) => items.iter().map(members).sum(),
                    Value::Object(object) => object.len() + object.values().map(members).sum::<usize>(),
                    _ => 0,
                }
            }
            prop_assert_eq!(members(&normalise(value.clone())), members(&value));
        }
    }

    /// JSON that a naive writer would change.
    pub(in crate::payloads) fn hostile() -> Value {
        let controls: String = (0u8..0x20).map(char::from).collect();
        json!({
            "2": "index", "1": "index", "_1": "taken", "01": 1, "4294967295": 1, "": "empty", "__proto__": { "a": 1 },
            "controls": controls,
            "separators": "\u{2028}\u{2029}\u{7f}\u{85}\u{feff}\u{fffd}",
            "slash": "</script>/\\\"",
            "emoji": "👩‍🚀 é e\u{301} 漢",
            "numbers": [0, -1, 9_007_199_254_740_991_u64, 9_007_199_254_740_992_u64, u64::MAX, i64::MIN, 1.5, 1e21, -0.0, 1e-7],
            "nested": [[[]], {}, { "10": { "9": null } }, true, false],
        })
    }

    #[test]
    fn unsafe_numbers_and_names_are_rewritten() {
        let body = normalise(hostile());
        assert_eq!(body["_2"], "index");
        assert_eq!(body["__1"], "index");
        assert_eq!(body["_1"], "taken");
        assert_eq!(body["numbers"][2], 9_007_199_254_740_991_u64);
        assert_eq!(body["numbers"][3], "9007199254740992");
        assert_eq!(body["numbers"][6], "1.5");
    }
}
