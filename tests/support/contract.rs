//! What the published documents say about an answer. Every answer that a test gets is held against them, more strictly
//! than most clients would: members that are not documented, members that are null and missing, and whole numbers with
//! a fraction are flaws. Source: decisions D31.

use serde_json::{Map, Value, json};
use std::sync::OnceLock;

/// Members that may be null, each with the one that stands in its place when that is what was asked for.
const INSTEAD: [(&str, &str); 1] = [("network", "networks")];

/// A committed document.
pub fn committed(name: &str) -> String {
    let path = format!("{}/openapi/{name}.json", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}; run `cargo xtask openapi generate`"))
}

/// The documents of the operations.
pub fn documents() -> &'static [Value; 2] {
    static DOCUMENTS: OnceLock<[Value; 2]> = OnceLock::new();
    DOCUMENTS.get_or_init(|| ["v2", "auth"].map(|name| serde_json::from_str(&committed(name)).expect("JSON")))
}

/// What a `$ref` stands for, or the value itself.
pub fn resolved<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    let reference = value["$ref"].as_str().map(|text| text.trim_start_matches('#'));
    reference.map_or(value, |pointer| document.pointer(pointer).expect("a target"))
}

/// A validator of a schema of a document, formats included. A member that is not listed does not fit.
pub fn executable(document: &Value, schema: &Value) -> jsonschema::Validator {
    let mut components = Map::new();
    collect(document, schema, &mut components);
    let mut schema = schema.clone();
    schema["components"] = json!({ "schemas": components });
    as_json_schema(&mut schema);
    jsonschema::options()
        .should_validate_formats(true)
        .build(&schema)
        .expect("a schema")
}

/// Finds every component that a schema needs.
fn collect(document: &Value, schema: &Value, found: &mut Map<String, Value>) {
    match schema {
        Value::Object(members) => {
            let name = members
                .get("$ref")
                .and_then(|reference| reference.as_str()?.rsplit('/').next());
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
fn as_json_schema(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            for (bound, flag) in [("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")] {
                if members.get(flag) == Some(&Value::Bool(true)) {
                    members.insert(flag.to_owned(), members[bound].clone());
                }
            }
            if members.remove("nullable") == Some(Value::Bool(true)) {
                if let Some(kind) = members.get("type").cloned() {
                    members.insert("type".to_owned(), json!([kind, "null"]));
                }
                if let Some(Value::Array(values)) = members.get_mut("enum") {
                    values.push(Value::Null);
                }
                if let Some(parts) = members.remove("allOf") {
                    members.insert("anyOf".to_owned(), json!([{ "allOf": parts }, { "type": "null" }]));
                }
            }
            if members.get("properties").is_some_and(Value::is_object) {
                members.entry("additionalProperties").or_insert(Value::Bool(false));
            }
            members.values_mut().for_each(as_json_schema);
        }
        Value::Array(items) => items.iter_mut().for_each(as_json_schema),
        _ => {}
    }
}

/// The operation that answers a call, and its document.
fn operation(method: &str, path: &str) -> Option<(&'static Value, &'static Value)> {
    let path = path.split('?').next().unwrap_or_default();
    let fits = |template: &str| {
        let mut parts = template.split('/').zip(path.split('/'));
        let is_as_long = template.matches('/').count() == path.matches('/').count();
        is_as_long && parts.all(|(wanted, given)| wanted == given || wanted.starts_with('{'))
    };
    let paths = documents().iter().flat_map(|document| {
        let paths = document["paths"].as_object().expect("paths");
        paths.iter().map(move |(template, item)| (template, item, document))
    });
    let found = paths.filter(|(template, ..)| fits(template));
    // A path without parameters is meant before one with them.
    let (_, item, document) = found.min_by_key(|(template, ..)| template.matches('{').count())?;
    Some((item.get(method.to_lowercase())?, document))
}

/// What is wrong with an answer.
pub fn flaws(method: &str, path: &str, status: u16, text: &str) -> Vec<String> {
    let Some((operation, document)) = operation(method, path) else {
        let is_read = matches!(method, "GET" | "POST" | "PUT" | "PATCH" | "DELETE");
        let is_operation = path.starts_with("/v1/") || path.starts_with("/v2/");
        let is_found = is_read && is_operation && (200..300).contains(&status);
        return is_found
            .then(|| "an operation that is not documented".to_owned())
            .into_iter()
            .collect();
    };
    let Some(response) = operation["responses"].get(status.to_string()) else {
        return vec![format!("the status {status} is not documented")];
    };
    let content = &resolved(document, response)["content"];
    let schema = &content["application/json"]["schema"];
    let line = &content["application/jsonl"]["schema"];
    if !line.is_null() {
        let lines = text.lines().filter(|line| line.starts_with('{'));
        return lines.flat_map(|text| flaws_of(document, line, text)).collect();
    }
    if schema.is_null() {
        let is_empty = text.is_empty();
        return (!is_empty)
            .then(|| "a body that is not documented".to_owned())
            .into_iter()
            .collect();
    }
    flaws_of(document, schema, text)
}

/// What a JSON text has that its schema does not say.
fn flaws_of(document: &Value, schema: &Value, text: &str) -> Vec<String> {
    let body: Value = match serde_json::from_str(text) {
        Ok(body) => body,
        Err(error) => return vec![format!("no JSON: {error}")],
    };
    let validator = executable(document, schema);
    let wrong = validator.iter_errors(&body);
    let mut found: Vec<String> = wrong
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    missing_nulls(document, schema, &body, "", &mut found);
    fractions(&body, "", &mut found);
    found
}

/// Members that may be null are written as null, never left out.
fn missing_nulls(document: &Value, schema: &Value, value: &Value, place: &str, found: &mut Vec<String>) {
    let schema = resolved(document, schema);
    for part in ["allOf", "anyOf"]
        .iter()
        .flat_map(|name| schema[*name].as_array())
        .flatten()
    {
        // Of several forms, the one whose members the value has.
        if schema["anyOf"].is_null() || executable(document, part).is_valid(value) {
            missing_nulls(document, part, value, place, found);
        }
    }
    if let Value::Array(items) = value {
        for (number, item) in items.iter().enumerate() {
            missing_nulls(document, &schema["items"], item, &format!("{place}/{number}"), found);
        }
    }
    let Value::Object(members) = value else { return };
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let place = format!("{place}/{name}");
        match members.get(name) {
            Some(member) => missing_nulls(document, property, member, &place, found),
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
