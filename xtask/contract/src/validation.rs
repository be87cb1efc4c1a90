//! Converts schemas of an OpenAPI 3.0 document to JSON Schema, for validators without OpenAPI support.

use serde_json::{Map, Value, json};

/// Nullable members that the service may leave out although it normally writes null. Each has the member that the body
/// must contain in its place.
const INSTEAD: [(&str, &str); 1] = [("network", "networks")];

/// The target of a `$ref`, or the value itself; null if the target does not exist.
pub fn resolved<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    match value["$ref"].as_str() {
        Some(reference) => document
            .pointer(reference.trim_start_matches('#'))
            .unwrap_or(&Value::Null),
        None => value,
    }
}

/// A schema of a document with all components that it needs. It is stricter than most clients: unlisted members are
/// rejected.
pub fn json_schema(document: &Value, schema: &Value) -> Value {
    let mut components = Map::new();
    collect(document, schema, &mut components);
    let mut schema = schema.clone();
    schema["components"] = json!({ "schemas": components });
    translate(&mut schema);
    schema
}

/// Adds every component that a schema refers to, directly or through other components.
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

/// Translates the keywords that differ between OpenAPI 3.0 and JSON Schema. `nullable` becomes a type, and the flags
/// for exclusive bounds become numbers.
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

/// The differences between a body and the form in which this service writes bodies, although the schema allows them.
/// The service writes absent nullable members as null, and whole numbers without a fraction. `fits` says whether a
/// value matches a schema.
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

/// Reports nullable members that are left out: the service writes them as null.
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
        // Of several alternative schemas, uses the one that matches the value.
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

/// Reports whole numbers with a fraction: the service writes them without one.
fn fractions(value: &Value, place: &str, found: &mut Vec<String>) {
    match value {
        Value::Number(number) if number.is_f64() => found.push(format!("{place}: {number} is not a whole number")),
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
    fn a_schema_has_only_the_components_that_it_needs() {
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
    fn nullable_members_must_not_be_omitted() {
        let schema = json!({"type": "object", "properties": {
            "a": {"type": "string", "nullable": true},
            "network": {"type": "string", "nullable": true},
        }});
        let found = unlike_ours(&json!({}), &schema, &json!({"networks": {}, "b": 1.5}), &|_, _| true);
        assert_eq!(found, ["/a: missing, not null", "/b: 1.5 is not a whole number"]);
    }
}
