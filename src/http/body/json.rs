//! Strict JSON parser: no duplicate member names, bounded depth, no U+0000, which databases cannot store. A number
//! without a fraction counts as an integer in any notation, for example `12.0` or `1.2e1`.

use crate::http::forms::reason::shorten_name;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use std::{cell::RefCell, fmt};

/// Deepest nesting of a body. Source: rules C.4.
pub const DEPTH_MAX: usize = 64;

/// Longest path in an error message, which has at most 2,000 characters.
const PATH_LENGTH_SHOWN: usize = 1_000;

/// Why a text is not an acceptable JSON document.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JsonFlaw {
    /// Not UTF-8.
    #[error("The body is not valid UTF-8")]
    Encoding,
    /// Not JSON.
    #[error("The body is not valid JSON (line {line}, column {column})")]
    Syntax {
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
    },
    /// A member name occurs twice in one object.
    #[error("The body contains the member `{path}` twice: send it once")]
    Duplicate {
        /// Path of the member.
        path: String,
    },
    /// Nested too deeply.
    #[error("The body is nested more deeply than {DEPTH_MAX} levels")]
    Depth,
    /// Contains U+0000.
    #[error("The body contains the character U+0000 in `{path}`: remove that character")]
    Null {
        /// Path of the text.
        path: String,
    },
}

impl JsonFlaw {
    /// Path of the invalid member, if any.
    pub fn path(&self) -> Option<&str> {
        match self {
            Self::Duplicate { path } | Self::Null { path } => Some(path),
            _ => None,
        }
    }
}

/// Parses a document. Errors: the first [`JsonFlaw`].
pub fn read(bytes: &[u8]) -> Result<Value, JsonFlaw> {
    let text = std::str::from_utf8(bytes).map_err(|_| JsonFlaw::Encoding)?;
    let state = ParserState::default();
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let value = JsonNode { state: &state }
        .deserialize(&mut deserializer)
        .and_then(|value| deserializer.end().map(|()| value));
    value.map_err(|error| {
        state.flaw.borrow_mut().take().unwrap_or_else(|| JsonFlaw::Syntax {
            line: error.line(),
            column: error.column(),
        })
    })
}

/// Path segment of a list entry.
pub(in crate::http) fn entry(index: usize) -> String {
    format!("[{index}]")
}

/// Appends a segment to a path: a member after a dot, a list entry in brackets.
pub(in crate::http) fn below(path: &str, segment: &str) -> String {
    let separator = if path.is_empty() || segment.starts_with('[') {
        ""
    } else {
        "."
    };
    format!("{path}{separator}{segment}")
}

#[derive(Default)]
struct ParserState {
    path: RefCell<Vec<String>>,
    flaw: RefCell<Option<JsonFlaw>>,
}

impl ParserState {
    fn path(&self) -> String {
        let path = self.path.borrow();
        if path.is_empty() {
            "the top level".to_owned()
        } else {
            let whole = path.iter().fold(String::new(), |path, segment| below(&path, segment));
            whole.chars().take(PATH_LENGTH_SHOWN).collect()
        }
    }

    /// Stores the flaw in the state, because errors of the parser can only carry text.
    fn fail<E: Error>(&self, flaw: JsonFlaw) -> E {
        *self.flaw.borrow_mut() = Some(flaw);
        E::custom("refused")
    }

    fn enter<E: Error>(&self, segment: String) -> Result<(), E> {
        let mut path = self.path.borrow_mut();
        if path.len() >= DEPTH_MAX {
            drop(path);
            return Err(self.fail(JsonFlaw::Depth));
        }
        path.push(segment);
        Ok(())
    }

    fn leave(&self) {
        self.path.borrow_mut().pop();
    }

    fn text<E: Error>(&self, text: &str) -> Result<(), E> {
        if text.contains('\0') {
            return Err(self.fail(JsonFlaw::Null { path: self.path() }));
        }
        Ok(())
    }
}

#[derive(Clone, Copy)]
struct JsonNode<'a> {
    state: &'a ParserState,
}

impl<'de> DeserializeSeed<'de> for JsonNode<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for JsonNode<'_> {
    type Value = Value;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, truth: bool) -> Result<Value, E> {
        Ok(Value::Bool(truth))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Value, E> {
        // A schema accepts 12.0 and 1.2e1 as integers, but Rust integer types do not parse them.
        if let Ok(integer) = number.to_string().parse::<i64>() {
            return Ok(integer.into());
        }
        Number::from_f64(number)
            .map(Value::Number)
            .ok_or_else(|| E::custom("not a finite number"))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        self.state.text(text)?;
        Ok(text.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        loop {
            self.state.enter(entry(values.len()))?;
            match items.next_element_seed(self)? {
                Some(value) => values.push(value),
                None => break,
            }
            self.state.leave();
        }
        self.state.leave();
        Ok(values.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            self.state.enter(shorten_name(&name))?;
            self.state.text(&name)?;
            if object.contains_key(&name) {
                return Err(self.state.fail(JsonFlaw::Duplicate {
                    path: self.state.path(),
                }));
            }
            let value = members.next_value_seed(self)?;
            self.state.leave();
            object.insert(name, value);
        }
        Ok(object.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_serde_json_reads() {
        let text = r#"{"a":[1,-2,3.5,"ü\u0007",null,true,{"b":{}}],"c":18446744073709551615}"#;
        assert_eq!(
            read(text.as_bytes()).unwrap(),
            serde_json::from_str::<Value>(text).unwrap()
        );
    }

    #[test]
    fn whole_numbers_are_integers_in_any_notation() {
        for (text, integer) in [
            ("12.0", 12),
            ("1.2e1", 12),
            ("-0.0", 0),
            ("-3e0", -3),
            ("1e18", 10_i64.pow(18)),
        ] {
            assert_eq!(read(text.as_bytes()), Ok(integer.into()), "{text}");
        }
        for text in ["12.5", "1e-1", "1e20", "1e300"] {
            let number = read(text.as_bytes()).expect("JSON");
            assert!(number.is_f64(), "{text}");
        }
    }

    #[test]
    fn a_duplicate_member_is_reported_with_its_path() {
        let flaw = read(br#"{"a":{"b":[{"c":1,"c":2}]}}"#).unwrap_err();
        assert_eq!(flaw.path(), Some("a.b[0].c"));
    }

    #[test]
    fn the_same_name_in_two_objects_is_accepted() {
        assert!(read(br#"[{"a":1},{"a":2}]"#).is_ok());
    }

    #[test]
    fn depth_is_bounded() {
        let nested = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
        assert!(read(nested(DEPTH_MAX).as_bytes()).is_ok());
        assert_eq!(read(nested(DEPTH_MAX + 1).as_bytes()), Err(JsonFlaw::Depth));
        assert_eq!(read("[".repeat(100_000).as_bytes()), Err(JsonFlaw::Depth));
    }

    #[test]
    fn a_long_path_is_cut_to_fit_the_message() {
        let name = "n".repeat(64);
        let levels = DEPTH_MAX - 1;
        let opened = format!("{{\"{name}\":").repeat(levels);
        let text = format!("{opened}\"\\u0000\"{}", "}".repeat(levels));
        let flaw = read(text.as_bytes()).unwrap_err();
        assert_eq!(flaw.path().map(str::len), Some(PATH_LENGTH_SHOWN));
        assert!(flaw.to_string().len() < 2_000);
    }

    #[test]
    fn broken_text_is_refused() {
        assert_eq!(read(b"{\"a\":\"\xff\"}"), Err(JsonFlaw::Encoding));
        assert!(matches!(
            read(b"{\"a\":1}x"),
            Err(JsonFlaw::Syntax { line: 1, column: 8 })
        ));
        assert!(matches!(read(b""), Err(JsonFlaw::Syntax { .. })));
        assert_eq!(read(br#"{"a":"\u0000"}"#).unwrap_err().path(), Some("a"));
        assert_eq!(read(br#"{"a\u0000":1}"#).unwrap_err().path(), Some("a\u{fffd}"));
        assert!(matches!(read(br#"{"a":"\ud800"}"#), Err(JsonFlaw::Syntax { .. })));
        assert!(matches!(read(b"1e999"), Err(JsonFlaw::Syntax { .. })));
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_panic(bytes: Vec<u8>) {
            let _ = read(&bytes);
        }
    }
}
