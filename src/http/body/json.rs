//! Reads JSON strictly: no duplicate member names, bounded depth, no U+0000, which databases cannot store. A number
//! without a fraction is an integer, however it is written.

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use std::{cell::RefCell, fmt};

/// Deepest nesting of a body. Source: rules C.4.
pub const DEPTH_MAX: usize = 64;

/// Longest member name that an error message repeats.
const NAME_LENGTH_SHOWN: usize = 64;

/// Longest path that an error message repeats: a message has 2,000 characters at most.
const PATH_LENGTH_SHOWN: usize = 1_000;

/// Why a text is not an acceptable JSON document.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Flaw {
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
    #[error("The body contains the member {path} twice")]
    Duplicate {
        /// Path of the member.
        path: String,
    },
    /// Nested too deeply.
    #[error("The body is nested more deeply than {DEPTH_MAX} levels")]
    Depth,
    /// Contains U+0000.
    #[error("The body contains the character U+0000 in {path}")]
    Null {
        /// Path of the text.
        path: String,
    },
}

impl Flaw {
    /// Path of the member that is wrong, when one is.
    pub fn path(&self) -> Option<&str> {
        match self {
            Self::Duplicate { path } | Self::Null { path } => Some(path),
            _ => None,
        }
    }
}

/// Reads a document. Errors: the first [`Flaw`].
pub fn read(bytes: &[u8]) -> Result<Value, Flaw> {
    let text = std::str::from_utf8(bytes).map_err(|_| Flaw::Encoding)?;
    let state = State::default();
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let value = Node { state: &state }
        .deserialize(&mut deserializer)
        .and_then(|value| deserializer.end().map(|()| value));
    value.map_err(|error| {
        state.flaw.borrow_mut().take().unwrap_or_else(|| Flaw::Syntax {
            line: error.line(),
            column: error.column(),
        })
    })
}

/// How an entry of a list is written in a path.
pub(in crate::http) fn entry(index: usize) -> String {
    format!("[{index}]")
}

/// A path with one more segment: a member after a dot, an entry of a list in brackets.
pub(in crate::http) fn below(path: &str, segment: &str) -> String {
    let separator = if path.is_empty() || segment.starts_with('[') {
        ""
    } else {
        "."
    };
    format!("{path}{separator}{segment}")
}

/// Shortens a name of a member for display. U+0000 becomes U+FFFD, because no text of an answer holds it either.
pub(in crate::http) fn shown(name: &str) -> String {
    name.replace('\0', "\u{fffd}").chars().take(NAME_LENGTH_SHOWN).collect()
}

#[derive(Default)]
struct State {
    path: RefCell<Vec<String>>,
    flaw: RefCell<Option<Flaw>>,
}

impl State {
    fn path(&self) -> String {
        let path = self.path.borrow();
        if path.is_empty() {
            "the top level".to_owned()
        } else {
            let whole = path.iter().fold(String::new(), |path, segment| below(&path, segment));
            whole.chars().take(PATH_LENGTH_SHOWN).collect()
        }
    }

    /// Keeps the flaw beside the parser, whose own errors can only carry text.
    fn fail<E: Error>(&self, flaw: Flaw) -> E {
        *self.flaw.borrow_mut() = Some(flaw);
        E::custom("refused")
    }

    fn enter<E: Error>(&self, segment: String) -> Result<(), E> {
        let mut path = self.path.borrow_mut();
        if path.len() >= DEPTH_MAX {
            drop(path);
            return Err(self.fail(Flaw::Depth));
        }
        path.push(segment);
        Ok(())
    }

    fn leave(&self) {
        self.path.borrow_mut().pop();
    }

    fn text<E: Error>(&self, text: &str) -> Result<(), E> {
        if text.contains('\0') {
            return Err(self.fail(Flaw::Null { path: self.path() }));
        }
        Ok(())
    }
}

#[derive(Clone, Copy)]
struct Node<'a> {
    state: &'a State,
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
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
        // 12.0 and 1.2e1 are integers to a schema, but not to the types that are read by it.
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
            self.state.enter(shown(&name))?;
            self.state.text(&name)?;
            if object.contains_key(&name) {
                return Err(self.state.fail(Flaw::Duplicate {
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
    fn a_number_without_a_fraction_is_an_integer_however_it_is_written() {
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
    fn a_duplicate_member_is_named_with_its_path() {
        let flaw = read(br#"{"a":{"b":[{"c":1,"c":2}]}}"#).unwrap_err();
        assert_eq!(flaw.path(), Some("a.b[0].c"));
    }

    #[test]
    fn the_same_name_in_two_objects_is_fine() {
        assert!(read(br#"[{"a":1},{"a":2}]"#).is_ok());
    }

    #[test]
    fn depth_is_bounded() {
        let nested = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
        assert!(read(nested(DEPTH_MAX).as_bytes()).is_ok());
        assert_eq!(read(nested(DEPTH_MAX + 1).as_bytes()), Err(Flaw::Depth));
        assert_eq!(read("[".repeat(100_000).as_bytes()), Err(Flaw::Depth));
    }

    #[test]
    fn a_path_is_shown_as_far_as_a_message_has_room() {
        let name = "n".repeat(NAME_LENGTH_SHOWN);
        let levels = DEPTH_MAX - 1;
        let opened = format!("{{\"{name}\":").repeat(levels);
        let text = format!("{opened}\"\\u0000\"{}", "}".repeat(levels));
        let flaw = read(text.as_bytes()).unwrap_err();
        assert_eq!(flaw.path().map(str::len), Some(PATH_LENGTH_SHOWN));
        assert!(flaw.to_string().len() < 2_000);
    }

    #[test]
    fn broken_text_is_refused() {
        assert_eq!(read(b"{\"a\":\"\xff\"}"), Err(Flaw::Encoding));
        assert!(matches!(read(b"{\"a\":1}x"), Err(Flaw::Syntax { line: 1, column: 8 })));
        assert!(matches!(read(b""), Err(Flaw::Syntax { .. })));
        assert_eq!(read(br#"{"a":"\u0000"}"#).unwrap_err().path(), Some("a"));
        assert_eq!(read(br#"{"a\u0000":1}"#).unwrap_err().path(), Some("a\u{fffd}"));
        assert!(matches!(read(br#"{"a":"\ud800"}"#), Err(Flaw::Syntax { .. })));
        assert!(matches!(read(b"1e999"), Err(Flaw::Syntax { .. })));
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_panic(bytes: Vec<u8>) {
            let _ = read(&bytes);
        }
    }
}
