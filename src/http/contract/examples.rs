//! Assembles the examples of whole bodies from those of their members.

use crate::http::contract::{members::members_mut, schemas::component_name};
use serde_json::{Map, Value, json};

/// Maximum nesting of an assembled example; only recursive schemas reach it.
const EXAMPLE_DEPTH_MAX: usize = 16;

/// Gives every member without an example its value in the example of the whole object. A number or boolean that is not
/// in that example gets a default example.
pub(super) fn spread_example(schema: &mut Value) {
    let whole = schema.get("example").cloned().unwrap_or_default();
    for (name, property) in members_mut(schema, "properties") {
        let is_plain = property.get("$ref").is_none() && property.get("example").is_none();
        if !is_plain {
            continue;
        }
        let obvious = matches!(property["type"].as_str(), Some("integer" | "number" | "boolean"))
            .then(|| example_of(property, &Value::Null, 0));
        let example = whole.get(name).filter(|value| !value.is_null()).cloned().or(obvious);
        if let (Some(example), Some(object)) = (example, property.as_object_mut()) {
            object.insert("example".to_owned(), example);
        }
    }
}

/// Assembles an example from the examples of the members.
pub(super) fn example_of(schema: &Value, schemas: &Value, depth: usize) -> Value {
    if depth > EXAMPLE_DEPTH_MAX {
        return Value::Null;
    }
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        return example_of(&schemas[component_name(reference)], schemas, depth + 1);
    }
    if let Some(example) = schema.get("example") {
        return example.clone();
    }
    if let Some(first) = schema["enum"].as_array().and_then(|values| values.first()) {
        return first.clone();
    }
    if let Some(parts) = schema["allOf"].as_array() {
        let mut merged = Map::new();
        for part in parts {
            if let Value::Object(members) = example_of(part, schemas, depth + 1) {
                merged.extend(members);
            }
        }
        return merged.into();
    }
    for keyword in ["oneOf", "anyOf"] {
        if let Some(first) = schema[keyword].as_array().and_then(|forms| forms.first()) {
            return example_of(first, schemas, depth + 1);
        }
    }
    match schema["type"].as_str() {
        Some("object") => object_example(schema, schemas, depth),
        Some("array") => json!([example_of(&schema["items"], schemas, depth + 1)]),
        Some("boolean") => json!(true),
        Some("integer" | "number") => schema.get("minimum").cloned().unwrap_or(json!(1)),
        Some("string") => json!("text"),
        _ => json!({}),
    }
}

fn object_example(schema: &Value, schemas: &Value, depth: usize) -> Value {
    let properties = schema["properties"].as_object().into_iter().flatten();
    let mut example: Map<String, Value> = properties
        .map(|(name, property)| (name.clone(), example_of(property, schemas, depth + 1)))
        .collect();
    if let Some(values) = schema.get("additionalProperties").filter(|values| values.is_object())
        && example.is_empty()
    {
        example.insert("name".to_owned(), example_of(values, schemas, depth + 1));
    }
    example.into()
}
