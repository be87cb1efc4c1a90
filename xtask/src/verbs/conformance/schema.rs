//! Whether a value is what a schema of the document describes: the part of OpenAPI 3.0 that the documents use.

use anyhow::{Context, Result};
use regex::Regex;
use serde_json::Value;

/// The document that references lead into.
pub(super) struct Schemas<'a>(pub(super) &'a Value);

impl Schemas<'_> {
    /// Everything in which the value differs from the schema, each with its place.
    pub(super) fn check(&self, schema: &Value, value: &Value) -> Result<Vec<String>> {
        let mut wrong = Vec::new();
        self.look(schema, value, "", &mut wrong)?;
        Ok(wrong)
    }

    fn look(&self, schema: &Value, value: &Value, place: &str, wrong: &mut Vec<String>) -> Result<()> {
        if let Some(reference) = schema["$ref"].as_str() {
            return self.look(self.resolve(reference)?, value, place, wrong);
        }
        let shown = if place.is_empty() { "the body" } else { place };
        if value.is_null() && schema["nullable"] == true {
            return Ok(());
        }
        for part in schema["allOf"].as_array().into_iter().flatten() {
            self.look(part, value, place, wrong)?;
        }
        for union in ["anyOf", "oneOf"] {
            let Some(parts) = schema[union].as_array() else {
                continue;
            };
            let mut nearest: Option<Vec<String>> = None;
            for part in parts {
                let mut own = Vec::new();
                self.look(part, value, place, &mut own)?;
                if nearest.as_ref().is_none_or(|nearest| own.len() < nearest.len()) {
                    nearest = Some(own);
                }
            }
            wrong.extend(nearest.into_iter().flatten());
        }
        if let Some(kind) = schema["type"].as_str()
            && !is_of(kind, value)
        {
            wrong.push(format!("{shown} is not of type {kind}: {value}"));
            return Ok(());
        }
        if let Some(values) = schema["enum"].as_array()
            && !values.contains(value)
        {
            wrong.push(format!("{shown} is none of the documented values: {value}"));
        }
        match value {
            Value::Object(members) => {
                for name in schema["required"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter_map(Value::as_str)
                {
                    if !members.contains_key(name) {
                        wrong.push(format!("{place}/{name} is missing"));
                    }
                }
                for (name, member) in members {
                    let place = format!("{place}/{name}");
                    match (schema["properties"].get(name), &schema["additionalProperties"]) {
                        (Some(schema), _) => self.look(schema, member, &place, wrong)?,
                        (None, Value::Bool(false)) => wrong.push(format!("{place} is not documented")),
                        (None, rest) if rest.is_object() => self.look(rest, member, &place, wrong)?,
                        (None, _) => {}
                    }
                }
            }
            Value::Array(items) => {
                bounds(schema, ["minItems", "maxItems"], items.len(), shown, "items", wrong);
                for (index, item) in items.iter().enumerate() {
                    self.look(&schema["items"], item, &format!("{place}/{index}"), wrong)?;
                }
            }
            Value::String(text) => {
                bounds(
                    schema,
                    ["minLength", "maxLength"],
                    text.chars().count(),
                    shown,
                    "letters",
                    wrong,
                );
                if let Some(pattern) = schema["pattern"].as_str() {
                    let regex = Regex::new(pattern).with_context(|| format!("the pattern of {shown}"))?;
                    if !regex.is_match(text) {
                        wrong.push(format!("{shown} does not have the form {pattern}: {value}"));
                    }
                }
            }
            Value::Number(number) => {
                let number = number.as_f64().unwrap_or_default();
                if schema["minimum"].as_f64().is_some_and(|least| number < least) {
                    wrong.push(format!("{shown} is too small: {value}"));
                }
                if schema["maximum"].as_f64().is_some_and(|most| number > most) {
                    wrong.push(format!("{shown} is too large: {value}"));
                }
            }
            Value::Null | Value::Bool(_) => {}
        }
        Ok(())
    }

    /// What a reference within the document leads to.
    pub(super) fn resolve(&self, reference: &str) -> Result<&Value> {
        let pointer = reference.strip_prefix('#').unwrap_or(reference);
        self.0
            .pointer(pointer)
            .with_context(|| format!("{reference} leads nowhere"))
    }
}

fn is_of(kind: &str, value: &Value) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        _ => false,
    }
}

fn bounds(schema: &Value, names: [&str; 2], size: usize, shown: &str, unit: &str, wrong: &mut Vec<String>) {
    let [least, most] = names.map(|name| schema[name].as_u64());
    if least.is_some_and(|least| (size as u64) < least) || most.is_some_and(|most| (size as u64) > most) {
        wrong.push(format!("{shown} has {size} {unit}, which is out of bounds"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn wrong(value: &Value) -> Vec<String> {
        let document = json!({"components": {"schemas": {
            "Text": {"type": "string", "pattern": "^[a-z\\u00ad]+$", "maxLength": 3},
            "Body": {"type": "object", "required": ["a"], "properties": {
                "a": {"$ref": "#/components/schemas/Text"},
                "b": {"nullable": true, "allOf": [{"$ref": "#/components/schemas/Text"}]},
                "c": {"type": "array", "items": {"type": "integer", "minimum": 0}},
                "d": {"anyOf": [{"type": "boolean"}, {"type": "string", "enum": ["x"]}]},
            }},
        }}});
        Schemas(&document)
            .check(&json!({"$ref": "#/components/schemas/Body"}), value)
            .unwrap()
    }

    #[test]
    fn a_value_differs_at_a_place() {
        assert!(wrong(&json!({"a": "abc", "b": null, "c": [1], "d": "x", "unknown": {}})).is_empty());
        assert_eq!(wrong(&json!({})), ["/a is missing"]);
        assert_eq!(wrong(&json!({"a": "ABC"})).len(), 1);
        assert_eq!(
            wrong(&json!({"a": "abcd"})),
            ["/a has 4 letters, which is out of bounds"]
        );
        assert_eq!(wrong(&json!({"a": null})), ["/a is not of type string: null"]);
        assert_eq!(wrong(&json!({"a": "a", "c": [-1]})), ["/c/0 is too small: -1"]);
        assert_eq!(wrong(&json!({"a": "a", "d": "y"})).len(), 1);
    }
}
