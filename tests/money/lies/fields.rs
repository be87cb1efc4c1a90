//! The fields of node responses. A test finds them in honest responses, and changes one field at a time.

use crate::{proxy::number, support::dice::Dice};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// A step of a path in a response.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Seg {
    /// Member of an object.
    Key(String),
    /// Every element of a list.
    Each,
}

/// Path of a field in a response, from the member `result`. The whole result counts as a field too.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path(Vec<Seg>);

impl Path {
    /// The result as a whole.
    pub fn whole() -> Self {
        Self(vec![Seg::Key("result".to_owned())])
    }

    /// Whether the path means the result as a whole.
    pub fn is_whole(&self) -> bool {
        self.0.len() == 1
    }

    /// The path without the list step, if the result is a list. It then leads to the field in one element that stands
    /// as the result.
    pub fn of_element(&self) -> Option<Self> {
        let (Seg::Key(first), Seg::Each) = (self.0.first()?, self.0.get(1)?) else {
            return None;
        };
        let first = Seg::Key(first.clone());
        Some(Self([&[first], &self.0[2..]].concat()))
    }
}

impl std::fmt::Display for Path {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (place, seg) in self.0.iter().enumerate() {
            match seg {
                Seg::Key(key) if place == 0 => write!(out, "{key}")?,
                Seg::Key(key) => write!(out, ".{key}")?,
                Seg::Each => write!(out, "[]")?,
            }
        }
        Ok(())
    }
}

/// Complete results of honest nodes, by method.
#[derive(Debug, Default)]
pub struct Samples(BTreeMap<String, Vec<Value>>);

/// Number of results of a method that are stored.
const SAMPLES_MAX: usize = 24;

impl Samples {
    /// Stores a result.
    pub fn add(&mut self, method: &str, result: &Value) {
        let results = self.0.entry(method.to_owned()).or_default();
        if results.len() < SAMPLES_MAX && !result.is_null() && !results.contains(result) {
            results.push(result.clone());
        }
    }

    /// Every field of every called method.
    pub fn fields(&self) -> Vec<(String, Path)> {
        let mut fields = BTreeSet::new();
        for (method, results) in &self.0 {
            for result in results {
                walk(result, Path::whole(), &mut |path| {
                    fields.insert((method.clone(), path));
                });
            }
        }
        fields.into_iter().collect()
    }

    /// The values that a field has in all stored results.
    pub fn elsewhere(&self, method: &str, path: &Path) -> Vec<Value> {
        let mut values = Vec::new();
        for result in self.0.get(method).into_iter().flatten() {
            let mut wrapped = json!({ "result": result });
            change(&mut wrapped, path, &mut |value| {
                if !values.contains(&value) {
                    values.push(value.clone());
                }
                Some(value)
            });
        }
        values
    }
}

fn walk(value: &Value, path: Path, found: &mut impl FnMut(Path)) {
    found(path.clone());
    let below = |seg: Seg| Path([path.0.as_slice(), &[seg]].concat());
    match value {
        Value::Object(members) => members
            .iter()
            .for_each(|(key, value)| walk(value, below(Seg::Key(key.clone())), found)),
        Value::Array(elements) => elements.iter().for_each(|value| walk(value, below(Seg::Each), found)),
        _ => {}
    }
}

/// Replaces every value at a path with the result of `by`; `None` removes the value.
pub fn change(value: &mut Value, path: &Path, by: &mut dyn FnMut(Value) -> Option<Value>) {
    change_at(value, &path.0, by);
}

fn change_at(value: &mut Value, path: &[Seg], by: &mut dyn FnMut(Value) -> Option<Value>) {
    match path {
        [] => {}
        [Seg::Key(key)] => {
            if let Some(members) = value.as_object_mut()
                && let Some(old) = members.remove(key)
                && let Some(new) = by(old)
            {
                members.insert(key.clone(), new);
            }
        }
        [Seg::Each] => {
            if let Some(elements) = value.as_array_mut() {
                *elements = std::mem::take(elements).into_iter().filter_map(by).collect();
            }
        }
        [Seg::Key(key), rest @ ..] => {
            if let Some(member) = value.get_mut(key) {
                change_at(member, rest, by);
            }
        }
        [Seg::Each, rest @ ..] => {
            for element in value.as_array_mut().into_iter().flatten() {
                change_at(element, rest, by);
            }
        }
    }
}

/// Minimum length of a text of hexadecimal digits without `0x`. Shorter ones may be words.
const DIGITS_MIN: usize = 8;

/// The text with another digit at a random place from `begin` on.
fn with_other_digit(text: &str, begin: usize, dice: &mut Dice) -> String {
    let place = begin + dice.below(text.len() - begin);
    let digit = if text.as_bytes().get(place) == Some(&b'7') {
        "8"
    } else {
        "7"
    };
    let mut text = text.to_owned();
    text.replace_range(place..=place, digit);
    text
}

/// A plausible value that differs from the original.
pub fn wrong(value: &Value, dice: &mut Dice) -> Value {
    const QUANTITY_LENGTH_MAX: usize = 18;
    match value {
        Value::String(text) if text.starts_with("0x") && text.len() <= QUANTITY_LENGTH_MAX => {
            let honest = number(value).unwrap_or(0);
            let other = match dice.below(4) {
                0 => honest.wrapping_add(1),
                1 => honest.saturating_sub(1),
                2 => u64::MAX,
                _ => honest ^ 0x80,
            };
            json!(format!("{other:#x}"))
        }
        Value::String(text) if text.starts_with("0x") => json!(with_other_digit(text, 2, dice)),
        Value::String(text) if text.len() >= DIGITS_MIN && text.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
            json!(with_other_digit(text, 0, dice))
        }
        Value::String(_) => json!("x"),
        Value::Bool(honest) => json!(!honest),
        Value::Number(honest) => {
            let honest = honest.as_u64().unwrap_or(0);
            json!(match dice.below(4) {
                0 if honest > 0 => honest - 1,
                1 => honest ^ 0x80,
                2 => u64::MAX,
                _ => honest.wrapping_add(1),
            })
        }
        Value::Array(elements) => {
            let mut elements = elements.clone();
            match dice.below(4) {
                0 => elements.clear(),
                1 => drop(elements.pop()),
                2 => elements.extend(elements.first().cloned()),
                _ => elements.reverse(),
            }
            json!(elements)
        }
        Value::Object(_) => json!({}),
        Value::Null => json!("0x1"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_of_a_response_is_found_and_changed_separately() {
        let mut samples = Samples::default();
        samples.add("m", &json!([{ "a": "0x1", "b": ["0x2", "0x3"] }]));
        let fields: Vec<String> = samples.fields().iter().map(|(_, path)| path.to_string()).collect();
        assert_eq!(
            fields,
            ["result", "result[]", "result[].a", "result[].b", "result[].b[]"]
        );
        let mut answer = json!({ "result": [{ "a": "0x1", "b": ["0x2", "0x3"] }] });
        let (_, path) = &samples.fields()[4];
        change(&mut answer, path, &mut |_| Some(Value::Null));
        assert_eq!(answer, json!({ "result": [{ "a": "0x1", "b": [null, null] }] }));
        change(&mut answer, &samples.fields()[2].1, &mut |_| None);
        assert_eq!(answer, json!({ "result": [{ "b": [null, null] }] }));
    }
}
