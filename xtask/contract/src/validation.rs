//! Schemas of an OpenAPI 3.0 document in the words of JSON Schema, for validators that know no OpenAPI.

use serde_json::{Map, Value, json};

/// Members that may be null, each with the one that stands in its place when that is what was asked for.
const INSTEAD: [(&str, &str); 1] = [("network", "networks")];

/// What a `$ref` stands for, or the value itself; null when it leads nowhere.
pub fn resolved<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    match value["$ref"].as_str() {
        Some(reference) => document
            .pointer(reference.trim_start_matches('#'))
            .unwrap_or(&Value::Null),
        None => value,
    }
}

/// A schema of a document by itself, with the components that it needs. It is stricter than most clients would be: a
/// member that is not listed does not fit.
pub fn json_schema(document: &Value, schema: &Value) -> Value {
    let mut components = Map::new();
    collect(document, schema, &mut components);
    let mut schema = schema.clone();
    schema["components"] = json!({ "schemas": components });
    translate(&mut schema);
    schema
}

/// Finds every component that a schema needs.
fn collect(document: &Value, schema: &Value, found: &mut Map<String, Value>) {
    match schema {
        Value::Object(members) => {
            let reference = members.get("$ref").and_then(Value::as_str);
            let name = reference.and_then(|reference| reference.rsplit('/').next());
            if let Some(name) = name.filter(|name| !found.contains_key(*name)) {
                let target = resolved(document, schema);
                found.insert(name.to_owned(), target.clone());
                collect(document, target, found);
            }
            members.values().for_each(|member| collect(document, member, found));
        }
        Value::Array(items) => items.iter().for_each(|item| collect(document, item, found)),
        _ => {}
    }
}

/// What 3.0 calls `nullable` is a type in JSON Schema, and its exclusive bounds are flags.
fn translate(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            for (bound, flag) in [("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")] {
                match members.get(flag) {
                    Some(Value::Bool(true)) => {
                        let value = members.get(bound).cloned().unwrap_or_default();
                        members.insert(flag.to_owned(), value);
                    }
                    Some(Value::Bool(false)) => drop(members.remove(flag)),
                    _ => {}
                }
            }
            if members.remove("nullable") == Some(Value::Bool(true)) {
                if let Some(kind) = members.get("type").cloned() {
                    members.insert("type".to_owned(), json!([kind, "null"]));
                }
                if let Some(Value::Array(values)) = members.get_mut("enum")
                    && !values.contains(&Value::Null)
                {
                    values.push(Value::Null);
                }
                if let Some(parts) = members.remove("allOf") {
                    members.insert("anyOf".to_owned(), json!([{ "allOf": parts }, { "type": "null" }]));
                }
            }
            if members.get("properties").is_some_and(Value::is_object) {
                members.entry("additionalProperties").or_insert(Value::Bool(false));
            }
            members.values_mut().for_each(translate);
        }
        Value::Array(items) => items.iter_mut().for_each(translate),
        _ => {}
    }
}

/// In what a body differs from how this service writes bodies, where its schema allows both: members that may be null are
/// written as null, and whole numbers without a fraction. `fits` says whether a value is what a schema describes.
pub fn unlike_ours(
    document: &Value,
    schema: &Value,
    body: &Value,
    fits: &dyn Fn(&Value, &Value) -> bool,
) -> Vec<String> {
    let mut found = Vec::new();
    missing_nulls(document, fits, schema, body, "", &mut found);
    fractions(body, "", &mut found);
    found
}

/// Members that may be null are written as null, never left out.
fn missing_nulls(
    document: &Value,
    fits: &dyn Fn(&Value, &Value) -> bool,
    schema: &Value,
    value: &Value,
    place: &str,
    found: &mut Vec<String>,
) {
    let schema = resolved(document, schema);
    let parts = ["allOf", "anyOf"]
        .iter()
        .flat_map(|name| schema[*name].as_array())
        .flatten();
    for part in parts {
        // Of several forms, the one whose members the value has.
        if schema["anyOf"].is_null() || fits(part, value) {
            missing_nulls(document, fits, part, value, place, found);
        }
    }
    if let Value::Array(items) = value {
        for (number, item) in items.iter().enumerate() {
            let place = format!("{place}/{number}");
            missing_nulls(document, fits, &schema["items"], item, &place, found);
        }
    }
    let Value::Object(members) = value else { return };
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let place = format!("{place}/{name}");
        match members.get(name) {
            Some(member) => missing_nulls(document, fits, property, member, &place, found),
            None if INSTEAD
                .iter()
                .any(|(one, other)| one == name && members.contains_key(*other)) => {}
            None if resolved(document, property)["nullable"] == true => {
                found.push(format!("{place}: missing, not null"));
            }
            None => {}
        }
    }
}

/// Whole numbers are written without a fraction.
fn fractions(value: &Value, place: &str, found: &mut Vec<String>) {
    match value {
        Value::Number(number) if number.is_f64() => found.push(format!("{place}: {number} is no whole number")),
        Value::Array(items) => {
            for (number, item) in items.iter().enumerate() {
                fractions(item, &format!("{place}/{number}"), found);
            }
        }
        Value::Object(members) => {
            for (name, member) in members {
                fractions(member, &format!("{place}/{name}"), found);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_brings_what_it_needs_and_nothing_else() {
        let document = json!({"components": {"schemas": {
            "Body": {"type": "object", "properties": {"a": {"$ref": "#/components/schemas/Text"}}},
            "Text": {"type": "string", "nullable": true, "enum": ["x"]},
            "Other": {"type": "integer"},
        }}});
        let schema = json_schema(&document, &json!({"$ref": "#/components/schemas/Body"}));
        assert_eq!(
            schema["components"]["schemas"],
            json!({
                "Body": {
                    "type": "object",
                    "properties": {"a": {"$ref": "#/components/schemas/Text"}},
                    "additionalProperties": false,
                },
                "Text": {"type": ["string", "null"], "enum": ["x", null]},
            })
        );
    }

    #[test]
    fn exclusive_bounds_and_nullable_references_are_translated() {
        let schema = json!({
            "minimum": 0, "exclusiveMinimum": true, "nullable": true, "allOf": [{"type": "integer"}],
        });
        let translated = json_schema(&json!({}), &schema);
        assert_eq!(translated["exclusiveMinimum"], 0);
        assert_eq!(
            translated["anyOf"],
            json!([{"allOf": [{"type": "integer"}]}, {"type": "null"}])
        );
    }

    #[test]
    fn what_may_be_null_is_not_left_out() {
        let schema = json!({"type": "object", "properties": {
            "a": {"type": "string", "nullable": true},
            "network": {"type": "string", "nullable": true},
        }});
        let found = unlike_ours(&json!({}), &schema, &json!({"networks": {}, "b": 1.5}), &|_, _| true);
        assert_eq!(found, ["/a: missing, not null", "/b: 1.5 is no whole number"]);
    }
}
